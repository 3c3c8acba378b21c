package consumer

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// lane is the one goroutine of a route. It alone touches the route's ledgers
// and slabs; fields below inbox and results belong to it.
type lane struct {
	route     Route
	sizes     Sizes
	publisher Publisher
	gate      *gate
	pool      *slabPool
	mark      func(map[string]map[int32]kgo.EpochOffset)
	jump      func(n int32, to kgo.EpochOffset)    // sends fetching there, and commits it
	block     func(n int32, next int64, err error) // tells of an unreadable batch
	tell      func(fault.Event)
	inbox     *inbox
	results   chan *flight // written by the goroutine of each batch, read by the lane
	stats     laneStats
	end       context.CancelFunc // abandons what is in flight and ends the lane; set by whoever starts it
	ended     chan struct{}      // closed by whoever started it when it has ended

	encoder  *message.Encoder
	record   message.Record // reused for every record
	shared   *queue         // of what has no order; nil where all has
	parts    map[int32]*partition
	queues   map[*queue]struct{} // shared, or the partitions' while anything is in them
	keyed    keyed               // of a route that is ordered by key
	flights  map[*flight]struct{}
	open     list.List // of flights that grow, wait or are in flight, oldest first
	retiring []*retirement
	orphans  []*partition              // of incarnations of the topic that are gone
	safe     map[int32]kgo.EpochOffset // moved since the last mark
	usual    int                       // bytes of the last sealed slab: room for the next
}

// laneStats is written by the lane and read by snapshots.
type laneStats struct {
	stamp      atomic.Int64 // unix nanoseconds of the last wake
	fetched    atomic.Int64 // records that brokers sent
	polled     atomic.Int64 // records
	settled    atomic.Int64 // records acknowledged or parked
	batches    atomic.Int64
	inFlight   atomic.Int64 // requests
	oldest     atomic.Int64 // unix nanoseconds of the oldest open record; 0 for none
	partitions atomic.Int64
	abandoned  atomic.Int64 // batches
	framing    atomic.Pointer[message.Framing]
}

func newLane(r Route, o *Options, p Publisher, g *gate, pool *slabPool) *lane {
	l := &lane{
		route: r, sizes: o.Sizes, publisher: p, gate: g, pool: pool,
		ended: make(chan struct{}), inbox: newInbox(), results: make(chan *flight),
		tell: o.Events, encoder: message.NewEncoder(o.Cluster, r.Topic, r.Destination, r.Ordering == OrderingPartition),
		parts: map[int32]*partition{}, queues: map[*queue]struct{}{},
		flights: map[*flight]struct{}{}, safe: map[int32]kgo.EpochOffset{},
	}
	l.encoder.Filter(r.Headers)
	l.encoder.Wrap(r.Format)
	if r.Ordering == OrderingKey {
		l.encoder.OrderByKey()
	}
	if r.Ordering != OrderingPartition {
		l.shared = &queue{limit: o.Sizes.InFlight}
		l.queues[l.shared] = struct{}{}
	}
	return l
}

// run works until ctx ends; then it abandons what is in flight and returns when
// nothing of it is left. ctx is also what batches are published under.
func (l *lane) run(ctx context.Context) {
	timer := time.NewTimer(wakeEvery)
	defer timer.Stop()
	done := ctx.Done()
	for {
		now := time.Now()
		l.stats.stamp.Store(now.UnixNano())
		l.flushMarks()
		l.retireDue(now)
		wait := l.send(ctx, now)
		l.measure()
		if done == nil && len(l.flights) == 0 {
			return
		}
		timer.Reset(wait)
		select {
		case <-l.inbox.wake:
			for _, f := range l.inbox.take() {
				f()
			}
		case f := <-l.results:
			l.land(f)
		case <-timer.C:
		case <-done:
			done = nil
			l.disown()
			l.lose(nil)
		}
	}
}

// send launches what may be launched and returns how long the lane may sleep.
func (l *lane) send(ctx context.Context, now time.Time) time.Duration {
	wait := wakeEvery
	if len(l.retiring) > 0 {
		wait = retireEvery
	}
	for q := range l.queues {
		for {
			f, again := q.next(now, l.sizes.Linger, len(l.retiring) > 0)
			if f == nil {
				if again > 0 {
					wait = min(wait, again)
				}
				break
			}
			l.launch(ctx, f)
		}
	}
	for q := l.keyed.head(); q != nil && l.keyed.inFlight < l.room(); q = l.keyed.head() {
		f, again := q.next(now, l.sizes.Linger, len(l.retiring) > 0)
		if f == nil {
			return min(wait, again)
		}
		l.keyed.pop()
		l.launch(ctx, f)
	}
	return wait
}

// launch publishes f on a goroutine of its own.
func (l *lane) launch(ctx context.Context, f *flight) {
	l.usual = len(f.batch.Slab)
	l.flights[f] = struct{}{}
	l.stats.inFlight.Add(1)
	l.stats.batches.Add(1)
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		f.err = l.publisher.Publish(ctx, f.batch)
		f.cancel()
		l.results <- f
	}()
}

// land takes the result of a batch.
func (l *lane) land(f *flight) {
	delete(l.flights, f)
	l.open.Remove(f.place)
	f.queue.inFlight--
	l.keyed.landed(f.queue)
	l.stats.inFlight.Add(-1)
	if f.err == nil {
		for _, s := range f.spans {
			l.settled(s)
			l.stats.settled.Add(int64(s.records))
		}
		for _, r := range l.retiring {
			r.moved = time.Now()
		}
		l.pool.put(f.batch.Slab)
	} else {
		l.stats.abandoned.Add(1)
	}
	l.gate.give(l.route.Topic, f.cost)
}

// settled settles s and notes the position that became safe, if one did.
func (l *lane) settled(s *span) {
	if safe, moved := s.ledger.settle(s); moved {
		l.safe[s.ledger.partition] = kgo.EpochOffset{Epoch: safe.epoch, Offset: safe.next}
	}
}

// flushMarks tells the client what became safe.
func (l *lane) flushMarks() {
	if len(l.safe) == 0 {
		return
	}
	l.mark(map[string]map[int32]kgo.EpochOffset{l.route.Topic: l.safe})
	clear(l.safe)
}

// measure publishes the numbers that only the lane can see.
func (l *lane) measure() {
	if e := l.open.Front(); e == nil {
		l.stats.oldest.Store(0)
	} else if f, ok := e.Value.(*flight); ok {
		l.stats.oldest.Store(f.oldest.UnixNano())
	}
	l.stats.partitions.Store(int64(len(l.parts)))
}
