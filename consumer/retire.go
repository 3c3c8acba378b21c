package consumer

import (
	"slices"
	"time"
)

// retireEvery is how often a retirement looks whether waiting still pays.
const retireEvery = 50 * time.Millisecond

// retirement is the orderly end of some partitions: what is open is sealed and
// sent, acknowledgements are awaited within limits, then the ledgers are
// detached.
type retirement struct {
	parts    []*partition
	deadline time.Time
	quiet    time.Duration // give up after so long without an acknowledgement
	moved    time.Time     // last acknowledgement
	done     chan struct{} // closed by the lane when the ledgers are detached
}

// assign begins new ledgers for partitions that the group gave us. One that we
// have comes again when its topic was begun anew: what is open of it is cut off.
func (l *lane) assign(partitions []int32) {
	l.detach(l.leave(partitions))
	for _, n := range partitions {
		p := &partition{ledger: &ledger{partition: n}, queue: l.shared, expected: -1, next: -1, suspect: -1}
		if p.queue == nil {
			p.queue = &queue{limit: 1}
			l.queues[p.queue] = struct{}{}
		}
		if l.route.Ordering == OrderingKey {
			p.keys = map[string]*queue{}
		}
		l.parts[n] = p
	}
}

// placed notes where fetching of a partition starts: its committed offset, -1
// when it has none, and the topic id from the metadata for brokers whose fetch
// responses have none.
func (l *lane) placed(partition int32, committed int64, id topicID) {
	if p := l.parts[partition]; p != nil {
		p.expected, p.next, p.topicID, p.prefix, p.placed = committed, committed, id, nil, true
	}
}

// retire starts the retirement of partitions, nil meaning all. done is closed
// when their ledgers are detached.
func (l *lane) retire(partitions []int32, limit, quiet time.Duration, done chan struct{}) {
	now := time.Now()
	r := &retirement{parts: l.leave(partitions), deadline: now.Add(limit), quiet: quiet, moved: now, done: done}
	for _, p := range r.parts {
		p.queue.seal()
	}
	l.retiring = append(l.retiring, r)
}

// retireDue ends the retirements for which waiting no longer pays.
func (l *lane) retireDue(now time.Time) {
	kept := l.retiring[:0]
	for _, r := range l.retiring {
		if l.worthWaiting(r, now) {
			kept = append(kept, r)
			continue
		}
		l.detach(r.parts)
		close(r.done)
	}
	clear(l.retiring[len(kept):])
	l.retiring = kept
}

// worthWaiting reports whether r has something open that may still be
// acknowledged in time.
func (l *lane) worthWaiting(r *retirement, now time.Time) bool {
	if !now.Before(r.deadline) || now.Sub(r.moved) >= r.quiet {
		return false
	}
	for _, p := range r.parts {
		if !p.ledger.idle() && l.moving(p) {
			return true
		}
	}
	return false
}

// moving reports whether the oldest open span of p, without which the position
// cannot move, may be acknowledged soon. A held or retrying batch is not waited
// for: it would make every other route's rebalance wait with it.
func (l *lane) moving(p *partition) bool {
	oldest := p.ledger.open[p.ledger.head]
	free := p.queue.inFlight < p.queue.limit && (p.keys == nil || l.keyed.inFlight < l.room())
	for f := range l.flights {
		if slices.Contains(f.spans, oldest) {
			return !f.batch.Stalled()
		}
		// Its batch has not been sent yet: one that lands makes room for it.
		free = free || (f.queue == p.queue || p.keys != nil) && !f.batch.Stalled()
	}
	return free
}

// detach cuts the ledgers of parts off: later acknowledgements move nothing.
// Batches for which nobody waits any more are dropped, or cancelled when they
// are in flight; one that also covers another partition goes on.
func (l *lane) detach(parts []*partition) {
	for _, p := range parts {
		p.ledger.detached = true
		delete(l.safe, p.ledger.partition)
	}
	for _, p := range parts {
		dropped := p.queue.drop()
		for _, q := range p.keys {
			dropped = append(dropped, q.drop()...)
		}
		for _, f := range dropped {
			l.open.Remove(f.place)
			l.pool.put(f.batch.Slab)
			l.stats.abandoned.Add(1)
			l.gate.give(l.route.Topic, f.cost)
		}
		if p.queue != l.shared {
			delete(l.queues, p.queue)
		}
	}
	l.keyed.ready = slices.DeleteFunc(l.keyed.ready, (*queue).empty)
	for f := range l.flights {
		if f.detached() {
			f.cancel()
		}
	}
}

// orphan cuts every ledger off and lets what was read go on: the topic it comes
// from is gone, so that nobody could read it again.
func (l *lane) orphan() {
	l.orphans = slices.DeleteFunc(l.orphans, func(p *partition) bool { return p.ledger.idle() })
	for _, p := range l.leave(nil) {
		p.ledger.detached, p.ledger.orphan = true, true
		delete(l.safe, p.ledger.partition)
		l.orphans = append(l.orphans, p)
	}
}

// disown gives the orphans up.
func (l *lane) disown() {
	for _, p := range l.orphans {
		p.ledger.orphan = false
	}
	l.detach(l.orphans)
}

// lose detaches partitions that the group has already given to others; nil
// means all. Retirements under way end with them.
func (l *lane) lose(partitions []int32) {
	l.detach(l.leave(partitions))
	for _, r := range l.retiring {
		r.deadline = time.Time{}
	}
}

// leave stops taking records of partitions, nil meaning all. A record that
// comes later is dropped and read again by the next owner.
func (l *lane) leave(partitions []int32) []*partition {
	if partitions == nil {
		for n := range l.parts {
			partitions = append(partitions, n)
		}
	}
	var left []*partition
	for _, n := range partitions {
		if p := l.parts[n]; p != nil {
			delete(l.parts, n)
			left = append(left, p)
		}
	}
	return left
}
