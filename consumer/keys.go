package consumer

// A route that is ordered by key has a queue for each ordering key of each
// partition: Kafka knows no order between partitions, so neither do we, and a
// partition that is taken away takes all of its queues along. Queues are there
// only while something is in them, and a wake of the lane looks at those alone
// that can be sent, however many keys there are.

const (
	// keysInFlight is the least number of requests in flight of such a route: they
	// carry one key each, so most are small, and the gate bounds their bytes.
	keysInFlight = 64
	// keyOverhead and keyedOverhead are bytes of memory that the gate counts
	// besides: for each batch its queue, bookkeeping and the rest of its buffer,
	// and for each record a span, since records of other keys lie between.
	keyOverhead   = 1024
	keyedOverhead = 128
)

// keyed is what a lane knows of all its keys. The zero value is ready.
type keyed struct {
	ready    []*queue // something to send, nothing in flight; first in, first out
	inFlight int
}

// queueOf returns the queue of the record that was measured last.
func (l *lane) queueOf(p *partition) *queue {
	if p.keys == nil {
		return p.queue
	}
	key := l.encoder.OrderingKey()
	if len(key) == 0 {
		return p.queue // no key, no order
	}
	q := p.keys[string(key)]
	if q == nil {
		q = &queue{limit: 1, key: string(key), siblings: p.keys}
		p.keys[q.key] = q
	}
	return q
}

// charge counts n bytes more for f, which nobody polled.
func (l *lane) charge(f *flight, n int64) {
	l.gate.take(l.route.Topic, n)
	f.cost += n
}

// room returns how many requests of single keys may be in flight.
func (l *lane) room() int { return max(l.sizes.InFlight, keysInFlight) }

// enlist makes a queue ready when it has something to send.
func (k *keyed) enlist(q *queue) {
	if q.siblings != nil && !q.listed && q.inFlight == 0 && !q.empty() {
		q.listed = true
		k.ready = append(k.ready, q)
	}
}

// head returns the queue that waits longest, nil for none.
func (k *keyed) head() *queue {
	if len(k.ready) == 0 {
		return nil
	}
	return k.ready[0]
}

// pop takes the head off, of which a batch is sent now.
func (k *keyed) pop() {
	k.ready[0].listed = false
	k.ready[0] = nil
	k.ready = k.ready[1:]
	k.inFlight++
}

// landed is told that the batch of q is no longer in flight.
func (k *keyed) landed(q *queue) {
	if q.siblings == nil {
		return
	}
	k.inFlight--
	if k.enlist(q); q.empty() {
		delete(q.siblings, q.key)
	}
}
