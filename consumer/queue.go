package consumer

import (
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/mskbridge/mskbridge/internal/message"
)

// flight is one batch on its way: growing, sealed, or in flight.
type flight struct {
	batch  *message.Batch
	queue  *queue
	place  *list.Element // in the lane's list
	spans  []*span
	cost   int64     // bytes to give back to the gate
	oldest time.Time // when its oldest record was polled
	cancel context.CancelFunc
	err    error // of Publish, written before the flight is sent to results
}

// detached reports whether nobody waits for f any more.
func (f *flight) detached() bool {
	for _, s := range f.spans {
		if !s.ledger.detached || s.ledger.orphan {
			return false
		}
	}
	return true
}

// cover adds a record of l to what f covers.
func (f *flight) cover(l *ledger, first int64, to position) {
	for _, v := range slices.Backward(f.spans) {
		if s := v; s.ledger == l {
			if l.youngest(s) {
				s.extend(to)
				return
			}
			break
		}
	}
	f.spans = append(f.spans, l.begin(first, to))
}

// queue is what a lane sends in order: one for an unordered route, one for each
// partition or key of an ordered one. It has at most limit batches in flight.
type queue struct {
	limit    int
	open     *flight   // the slab that grows; nil when there is none
	sealed   []*flight // wait for a free slot, oldest first
	inFlight int

	// Of a queue of one ordering key:
	key      string
	siblings map[string]*queue // the partition's, by key; nil for any other queue
	listed   bool              // it is ready
}

func (q *queue) empty() bool { return q.open == nil && len(q.sealed) == 0 }

// seal closes the open slab, so that it is sent with the next free slot.
func (q *queue) seal() {
	f := q.open
	if f == nil {
		return
	}
	q.open = nil
	f.batch.Spans = make([]message.Span, len(f.spans))
	for i, s := range f.spans {
		f.batch.Spans[i] = message.Span{
			Partition: s.ledger.partition, First: s.first, Last: s.to.next - 1, Next: s.to.next,
			LeaderEpoch: s.to.epoch, Records: s.records,
		}
	}
	q.sealed = append(q.sealed, f)
}

// next returns the batch to send now, or nil and how long to wait before
// asking again (0: until something happens).
func (q *queue) next(now time.Time, linger time.Duration, hurry bool) (*flight, time.Duration) {
	if q.inFlight >= q.limit {
		return nil, 0
	}
	if len(q.sealed) == 0 && q.open != nil {
		due := q.open.oldest.Add(oldestWait)
		if q.inFlight == 0 {
			due = q.open.oldest.Add(linger)
		}
		if !hurry && now.Before(due) {
			return nil, due.Sub(now)
		}
		q.seal()
	}
	if len(q.sealed) == 0 {
		return nil, 0
	}
	f := q.sealed[0]
	q.sealed[0] = nil
	q.sealed = q.sealed[1:]
	q.inFlight++
	return f, 0
}

// drop removes the batches for which nobody waits and returns them.
func (q *queue) drop() []*flight {
	var dropped []*flight
	kept := q.sealed[:0]
	for _, f := range q.sealed {
		if f.detached() {
			dropped = append(dropped, f)
		} else {
			kept = append(kept, f)
		}
	}
	clear(q.sealed[len(kept):])
	q.sealed = kept
	if q.open != nil && q.open.detached() {
		dropped = append(dropped, q.open)
		q.open = nil
	}
	return dropped
}
