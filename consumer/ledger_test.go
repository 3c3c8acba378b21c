package consumer

import (
	"fmt"
	"slices"
	"testing"
)

func at(next int64) position { return position{next: next, epoch: 7} }

func TestLedgerMarksTheSettledPrefix(t *testing.T) {
	// A step settles one of the spans [0,10) [10,20) [25,30) [30,31), which are
	// open from the start, or detaches the ledger.
	const detach = -1
	type step struct {
		settle int
		next   int64 // position that became safe; 0 for none
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"in order", []step{{0, 10}, {1, 20}, {2, 30}, {3, 31}}},
		{"in reverse", []step{{3, 0}, {2, 0}, {1, 0}, {0, 31}}},
		{"a straggler holds back what came after it", []step{{0, 10}, {2, 0}, {3, 0}, {1, 31}}},
		{"only the prefix moves", []step{{1, 0}, {0, 20}, {3, 0}, {2, 31}}},
		{"a hole between spans is passed", []step{{0, 10}, {1, 20}, {2, 30}}},
		{"detached before anything", []step{{detach, 0}, {0, 0}, {1, 0}, {2, 0}, {3, 0}}},
		{"detached between", []step{{1, 0}, {detach, 0}, {0, 0}, {2, 0}, {3, 0}}},
		{"settled twice", []step{{0, 10}, {0, 0}, {1, 20}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := &ledger{}
			spans := []*span{l.begin(0, at(10)), l.begin(10, at(20)), l.begin(25, at(30)), l.begin(30, at(31))}
			for i, s := range tt.steps {
				if s.settle == detach {
					l.detached = true
					continue
				}
				got, moved := l.settle(spans[s.settle])
				if moved != (s.next != 0) || moved && got != at(s.next) {
					t.Errorf("step %d settles span %d: got %+v, moved %v, want next %d", i, s.settle, got, moved, s.next)
				}
			}
		})
	}
}

func TestLedgerKnowsWhenItIsIdle(t *testing.T) {
	l := &ledger{}
	if !l.idle() {
		t.Error("a new ledger is not idle")
	}
	a, b := l.begin(0, at(1)), l.begin(1, at(2))
	l.settle(b)
	if l.idle() {
		t.Error("idle with the first span open")
	}
	l.settle(a)
	if !l.idle() {
		t.Error("not idle although all is settled")
	}
}

func TestLedgerExtendsTheYoungestOnly(t *testing.T) {
	l := &ledger{}
	a := l.begin(0, at(1))
	if !l.youngest(a) {
		t.Error("the only span is not the youngest")
	}
	a.extend(at(5))
	b := l.begin(5, at(6))
	if l.youngest(a) || !l.youngest(b) {
		t.Error("the second span is not the youngest alone")
	}
	if got, moved := l.settle(a); !moved || got != at(5) {
		t.Errorf("settling the extended span: %+v, %v, want next 5", got, moved)
	}
	l.settle(b)
	if l.youngest(b) {
		t.Error("a span that is done is the youngest: it would be extended behind the safe position")
	}
}

// incarnation is a ledger of the search, with what the search knows about it.
type incarnation struct {
	ledger *ledger
	first  int64 // offset of its first span
	spans  []*span
}

func (in *incarnation) open(limit int64) bool {
	next := in.first + int64(len(in.spans))
	if next >= limit || in.ledger.detached {
		return false
	}
	in.spans = append(in.spans, in.ledger.begin(next, at(next+1)))
	return true
}

// partitionLife is one partition read by one member that loses it and gets it
// back: two incarnations of its ledger.
type partitionLife struct {
	now, before *incarnation // before is nil until the partition came back
	acked       [8]bool
	marked      int64
}

// The search's actions: settle span i of the first or second incarnation, open
// the next span, or lose the partition and get it back.
const (
	actOpen     = 100
	actReassign = 101
	actLate     = 50 // + i: an acknowledgement for the first incarnation after the second began
)

// do returns false when the action is not possible, and an error when a promise
// is broken.
func (p *partitionLife) do(action int, records int64) (bool, error) {
	switch {
	case action == actOpen:
		return p.now.open(records), nil
	case action == actReassign:
		if p.before != nil {
			return false, nil
		}
		p.now.ledger.detached = true
		p.before, p.now = p.now, &incarnation{ledger: &ledger{}, first: p.marked}
		return true, nil
	}
	in, i := p.now, action
	if action >= actLate {
		in, i = p.before, action-actLate
	}
	if in == nil || i >= len(in.spans) || in.spans[i].settled {
		return false, nil
	}
	p.acked[in.spans[i].first] = true
	safe, moved := in.ledger.settle(in.spans[i])
	if !moved {
		return true, p.heldBack(in)
	}
	switch {
	case in != p.now:
		return true, fmt.Errorf("a late acknowledgement moved a detached ledger to %d", safe.next)
	case safe.next <= p.marked:
		return true, fmt.Errorf("the mark went from %d to %d", p.marked, safe.next)
	}
	p.marked = safe.next
	for o := range p.marked {
		if !p.acked[o] {
			return true, fmt.Errorf("the mark %d passed record %d, which nobody acknowledged", p.marked, o)
		}
	}
	return true, p.heldBack(in)
}

// heldBack checks that the mark is not behind what could be marked.
func (p *partitionLife) heldBack(in *incarnation) error {
	if in != p.now {
		return nil
	}
	for i, s := range in.spans {
		if !s.settled {
			return nil
		}
		if want := in.first + int64(i) + 1; p.marked < want {
			return fmt.Errorf("the mark is %d although all below %d is settled", p.marked, want)
		}
	}
	return nil
}

// lifeState is what the future of a partitionLife depends on, inner state of the
// ledgers included.
type lifeState struct {
	marked      int64
	now, before ledgerState
}

type ledgerState struct {
	first               int64
	head, open, spans   int
	settled             uint64 // a bit for each span
	detached, inService bool
}

func (p *partitionLife) state() lifeState {
	of := func(in *incarnation) ledgerState {
		if in == nil {
			return ledgerState{}
		}
		s := ledgerState{in.first, in.ledger.head, len(in.ledger.open), len(in.spans), 0, in.ledger.detached, true}
		for i, span := range in.spans {
			if span.settled {
				s.settled |= 1 << i
			}
		}
		return s
	}
	return lifeState{p.marked, of(p.now), of(p.before)}
}

// TestLedgerInEveryOrder searches all interleavings of opening, settling, losing
// the partition, and late acknowledgements, breadth first.
func TestLedgerInEveryOrder(t *testing.T) {
	const records = 6
	actions := []int{actOpen, actReassign}
	for i := range records {
		actions = append(actions, i, actLate+i)
	}
	replay := func(path []int) *partitionLife {
		p := &partitionLife{now: &incarnation{ledger: &ledger{}}}
		for _, a := range path {
			p.do(a, records) //nolint:errcheck // the same path was fine when it was found
		}
		return p
	}
	seen, queue := map[lifeState]bool{}, [][]int{nil}
	complete := 0
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		p := replay(path)
		for _, a := range actions {
			possible, err := p.do(a, records)
			if !possible {
				continue
			}
			next := append(slices.Clip(path), a)
			if err != nil {
				t.Fatalf("after %v: %v", next, err)
			}
			if s := p.state(); !seen[s] {
				seen[s] = true
				queue = append(queue, next)
				if p.marked == records {
					complete++
				}
			}
			p = replay(path)
		}
	}
	if len(seen) < 5000 || complete == 0 {
		t.Errorf("only %d states, %d of them with all records marked: the search is not searching", len(seen), complete)
	}
}

// FuzzLedger compares the ledger with the obvious way to write it: look at all
// spans that were ever opened.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 1, 2, 0, 2, 0})
	f.Add([]byte{1, 80, 3, 70, 1, 200, 3, 199, 2, 0, 4, 0, 3, 5})
	f.Add([]byte{0, 3, 5, 9, 0, 1, 2, 1, 2, 0, 4, 0, 2, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		l := &ledger{}
		var all []*span // the model: every span, in order
		next, marked := int64(0), int64(0)
		settle := func(s *span) {
			if s.settled {
				return
			}
			detached := l.detached
			got, moved := l.settle(s)
			want := marked
			for _, s := range all {
				if !s.settled {
					break
				}
				want = s.to.next
			}
			if moved != (want > marked && !detached) || moved && got.next != want {
				t.Fatalf("settling [%d,%d): got %d, moved %v, want %d after %d", s.first, s.to.next, got.next, moved, want, marked)
			}
			if moved {
				marked = want
			}
		}
		begin := func(hole int64) {
			all = append(all, l.begin(next+hole, at(next+hole+1)))
			next += hole + 1
		}
		for ; len(script) >= 2 && len(all) < 2000; script = script[2:] {
			n := int(script[1])
			switch script[0] % 6 {
			case 0:
				begin(int64(n % 4))
			case 1:
				for range n {
					begin(0)
				}
			case 2:
				if len(all) > 0 {
					settle(all[n%len(all)])
				}
			case 3: // the oldest n that are open
				for _, s := range all {
					if n > 0 && !s.settled {
						settle(s)
						n--
					}
				}
			case 4:
				l.detached = n%8 == 0 || l.detached
			case 5:
				if len(all) > 0 && l.youngest(all[len(all)-1]) && !all[len(all)-1].settled {
					next += int64(n%4) + 1
					all[len(all)-1].extend(at(next))
				}
			}
			open := false
			for _, s := range all {
				open = open || !s.settled
			}
			if l.idle() == open {
				t.Fatalf("idle is %v with a span open: %v", l.idle(), open)
			}
		}
	})
}
