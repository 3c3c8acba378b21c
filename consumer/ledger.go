package consumer

// position is where a partition may be committed: the next offset to read, and
// the leader epoch of the record before it.
type position struct {
	next  int64
	epoch int32
}

// span is a run of consecutive polled records that is in flight, or will be.
// It points at its ledger, so that an acknowledgement that comes after the
// partition was taken away settles a detached ledger, which moves nothing.
type span struct {
	ledger  *ledger
	first   int64
	to      position
	records int
	settled bool
}

// ledger knows, for one partition during one assignment, which spans are open
// and hence up to where we may commit. Spans open in the order of their
// offsets and settle in any order. It belongs to its lane.
type ledger struct {
	partition int32
	open      []*span // in order; open[head:] are not yet behind the safe position
	head      int
	detached  bool
	// orphan is detached, but what is open of it is wanted: nobody can read it again.
	orphan bool
}

// begin opens a span for the record at first; to is the position after it.
func (l *ledger) begin(first int64, to position) *span {
	s := &span{ledger: l, first: first, to: to, records: 1}
	l.open = append(l.open, s)
	return s
}

// extend grows s, which must be the youngest span of its ledger, by one record.
func (s *span) extend(to position) {
	s.to = to
	s.records++
}

// youngest reports whether s was the last span to be opened.
func (l *ledger) youngest(s *span) bool {
	return len(l.open) > l.head && l.open[len(l.open)-1] == s
}

// settle notes that all records of s are acknowledged or parked. It returns the
// position that is now safe to commit, and whether it moved.
func (l *ledger) settle(s *span) (position, bool) {
	s.settled = true
	var safe position
	moved := false
	for l.head < len(l.open) && l.open[l.head].settled {
		safe, moved = l.open[l.head].to, true
		l.open[l.head] = nil
		l.head++
	}
	switch {
	case l.head == len(l.open):
		l.open, l.head = l.open[:0], 0
	case l.head > 64 && l.head*2 > len(l.open):
		l.open = append(l.open[:0], l.open[l.head:]...)
		l.head = 0
	}
	return safe, moved && !l.detached
}

// cut makes no span that is open move the position past at.
func (l *ledger) cut(at int64) {
	for _, s := range l.open[l.head:] {
		s.to.next = min(s.to.next, at)
	}
}

// idle reports whether no span is open.
func (l *ledger) idle() bool { return l.head == len(l.open) }
