package consumer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// Consumer pulls all routes with one Kafka client. Snapshot and Lag may be
// called from any goroutine at any time, Run once.
type Consumer struct {
	opts      Options
	publisher Publisher
	pool      *slabPool
	lanes     laneSet
	crew      crew
	gate      *gate
	reborn    reborn
	client    atomic.Pointer[kgo.Client] // nil until Run
	made      chan struct{}              // closed by Run when client is there

	delivering sync.Mutex // held while a poll is handed to the lanes
	topics     sync.Mutex // held while the client is told what to consume

	joined       atomic.Bool
	answered     atomic.Bool // a broker has answered
	pollStamp    atomic.Int64
	lookStamp    atomic.Int64
	troubles     troubles
	blocks       blocks
	watch        watch
	incarnations *incarnations
	lag          lagCache
}

// New checks o and allocates. It dials nothing and starts nothing.
func New(o Options, p Publisher) (*Consumer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Events == nil {
		o.Events = func(fault.Event) {}
	}
	c := &Consumer{opts: o, publisher: p, pool: new(slabPool), made: make(chan struct{}), incarnations: newIncarnations()}
	c.reborn.GroupBalancer = kgo.CooperativeStickyBalancer()
	c.reborn.member = func() string {
		<-c.made // the client may sync before its constructor has returned
		id, _ := c.client.Load().GroupMetadata()
		return id
	}
	c.gate = newGate(o.Sizes.Window, lazyPauser{c}, nil)
	if err := c.hire(o.Routes); err != nil {
		return nil, err
	}
	return c, nil
}

// lazyPauser reaches the client that Run makes.
type lazyPauser struct{ c *Consumer }

func (p lazyPauser) PauseFetchTopics(topics ...string) []string {
	return p.c.client.Load().PauseFetchTopics(topics...)
}

func (p lazyPauser) ResumeFetchTopics(topics ...string) {
	p.c.client.Load().ResumeFetchTopics(topics...)
}

// Run pulls until ctx ends, then drains for at most 5.5 s, commits and leaves the
// group within what is left of 7.5 s, and closes the client within 0.5 s more. It
// returns nil after such a stop, also when work had to be abandoned.
func (c *Consumer) Run(ctx context.Context) error {
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		if err := c.reborn.mayCommit(); err != nil {
			return err
		}
		c.incarnations.stamp(req)
		return nil
	})
	c.crew.mu.Lock()
	client, err := kgo.NewClient(append(c.options(), kgo.WithContext(context.WithoutCancel(ctx)))...)
	if err != nil {
		c.crew.mu.Unlock()
		return fmt.Errorf("configuring the kafka client: %w", err)
	}
	c.client.Store(client)
	close(c.made)

	// Work goes on while ctx has ended: the drain needs it.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var lanes, looks sync.WaitGroup
	c.crew.start = func(l *lane) {
		var ctx context.Context
		ctx, l.end = context.WithCancel(work)
		lanes.Go(func() {
			defer close(l.ended)
			l.run(ctx)
		})
	}
	for _, l := range c.lanes.all() {
		c.crew.start(l)
	}
	c.crew.mu.Unlock()
	looks.Go(func() { c.look(ctx) })

	err = c.poll(ctx)
	c.opts.Events(fault.Event{Kind: fault.Stopping, Partition: -1, Reason: "draining what is in flight"})
	c.crew.mu.Lock()
	c.crew.ended = true
	c.crew.mu.Unlock()
	looks.Wait()
	c.stop(work, client)
	abandon()
	lanes.Wait()
	// Closing is not bounded by itself, so it may be left behind.
	within(context.WithoutCancel(ctx), closeStop, func(context.Context) {
		client.Close()
		// Close polls once more, and a leave that begins later waits for that.
		client.AllowRebalance()
	})
	return err
}

// stop drains every route, commits and leaves the group, so that its partitions
// are taken over at once.
func (c *Consumer) stop(work context.Context, client *kgo.Client) {
	all := make(map[string][]int32, len(c.lanes.all()))
	for topic := range c.lanes.all() {
		all[topic] = nil
	}
	began := time.Now()
	c.retire(all, drainStop, drainStop)
	// What the drain did not need is left for leaving: a member that still waits
	// for its first assignment must wait on, or the group waits for its session.
	within(work, drainStop+leaveStop-time.Since(began), func(ctx context.Context) {
		c.noteCommit(client.CommitMarkedOffsets(ctx))
		// The callback for what we still own runs inside: the lanes live on.
		c.noteCommit(client.LeaveGroupContext(ctx))
	})
}

// within runs f under a deadline and does not wait longer than that, since
// parts of the client's commit wait for locks without looking at the context.
func within(ctx context.Context, limit time.Duration, f func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	done := make(chan struct{})
	go func() {
		defer cancel()
		f(ctx)
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
