package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Summary counts what the history holds.
type Summary struct {
	Produced int // visible records
	Stored   int // of them, on their destination at least once
	Parked   int // of them, on a dead-letter topic
	Exempt   int // of them, neither, and excused
	Missing  int // of them, neither
	Repeats  int // copies beyond the first
	Invented int // messages without a record
	Behind   int // records above the committed offsets
}

func (sum Summary) String() string {
	return fmt.Sprintf("produced %d, stored %d, parked %d, exempt %d, missing %d, repeats %d, invented %d, not committed %d",
		sum.Produced, sum.Stored, sum.Parked, sum.Exempt, sum.Missing, sum.Repeats, sum.Invented, sum.Behind)
}

// Summary counts at any time.
func (h *History) Summary() Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	var sum Summary
	for _, l := range h.logs {
		for o := range l.slots {
			sum.count(l, int64(o))
		}
	}
	return sum
}

func (sum *Summary) count(l *log, o int64) {
	s := &l.slots[o]
	sum.Repeats += max(0, int(s.stored)-1)
	if !s.has(produced) {
		if s.known {
			sum.Invented++
		}
		return
	}
	if s.has(invisible) {
		return
	}
	sum.Produced++
	if o >= l.committed {
		sum.Behind++
	}
	switch {
	case s.stored > 0:
		sum.Stored++
	case s.has(parked):
		sum.Parked++
	case s.has(exempt):
		sum.Exempt++
	default:
		sum.Missing++
	}
}

// Quiet reports whether every visible record is settled and committed, so that
// Check may be called.
func (h *History) Quiet() bool {
	s := h.Summary()
	return s.Missing == 0 && s.Behind == 0
}

// Check judges what can only be judged at the end, and returns everything that
// was broken, with the events before the first violation.
func (h *History) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.sorted() {
		for o := range l.slots {
			s := &l.slots[o]
			if s.visible() && !s.settled() {
				h.breach("I1", "%v offset %d is neither stored and acknowledged nor parked (copies %d)", l.p, o, s.stored)
			}
			if s.known && !s.has(produced) {
				h.breach("I5", "%v offset %d is stored but was never produced", l.p, o)
			}
		}
	}
	return h.errorLocked()
}

// CheckEvents judges that the bridge's own reports are the truth: parks exactly
// those parked for good; losses all those trimmed and never stored, and none that Kafka
// still has. Call it when LossReported and ParkReported are fed.
func (h *History) CheckEvents() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.sorted() {
		for o := range l.slots {
			s := &l.slots[o]
			switch {
			case s.has(parked) && !s.has(reported|lossTold) && s.stored == 0:
				// One that is stored or lost, too, may have been parked by an attempt
				// whose answer nobody waited for any more.
				h.breach("EVENTS", "%v offset %d was parked without a report", l.p, o)
			case s.has(reported) && !s.has(parked):
				h.breach("EVENTS", "%v offset %d was reported as parked but is not", l.p, o)
			}
			lost := s.visible() && s.has(trimmed) && s.stored == 0 && !s.has(parked)
			switch {
			case lost && !s.has(lossTold):
				h.breach("EVENTS", "%v offset %d was lost without a report", l.p, o)
			case s.has(lossTold) && !s.has(trimmed):
				h.breach("EVENTS", "%v offset %d was reported as lost but was not", l.p, o)
			}
		}
	}
	return h.errorLocked()
}

// sorted returns the logs in a fixed order, so that reports are comparable.
func (h *History) sorted() []*log {
	return slices.SortedFunc(maps.Values(h.logs), func(a, b *log) int {
		return strings.Compare(fmt.Sprint(a.p, a.p.ID), fmt.Sprint(b.p, b.p.ID))
	})
}

func (h *History) errorLocked() error {
	if h.broken == 0 {
		return nil
	}
	errs := make([]error, 0, len(h.violations)+1)
	for _, v := range h.violations {
		errs = append(errs, v)
	}
	errs = append(errs, fmt.Errorf("%d violations in all; events before the first:\n%s",
		h.broken, strings.Join(h.violations[0].Recent, "\n")))
	return errors.Join(errs...)
}
