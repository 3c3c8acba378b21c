package consumer

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// laneSet is the lanes of all routes, by topic. Looking never waits; whoever
// changes it stores a copy.
type laneSet struct {
	now atomic.Pointer[map[string]*lane]
	mu  sync.Mutex // held while a copy is made
}

// all returns every lane. Nobody writes to it.
func (s *laneSet) all() map[string]*lane {
	if m := s.now.Load(); m != nil {
		return *m
	}
	return nil
}

// of returns the lane of a topic, nil for none.
func (s *laneSet) of(topic string) *lane { return s.all()[topic] }

func (s *laneSet) change(f func(map[string]*lane)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.all())
	if next == nil {
		next = map[string]*lane{}
	}
	f(next)
	s.now.Store(&next)
}

// crew starts lanes while Run runs.
type crew struct {
	mu    sync.Mutex  // guards what follows
	start func(*lane) // nil before Run and after its end
	ended bool
}

// newLane makes the lane of a route and its share of the window.
func (c *Consumer) newLane(r Route) *lane {
	c.gate.admit(r.Topic)
	l := newLane(r, &c.opts, c.publisher, c.gate, c.pool)
	l.jump = func(n int32, to kgo.EpochOffset) {
		c.client.Load().SetOffsets(map[string]map[int32]kgo.EpochOffset{r.Topic: {n: to}})
	}
	l.block = func(n int32, next int64, err error) { c.noteUnreadable(r.Topic, n, next, err) }
	l.mark = func(m map[string]map[int32]kgo.EpochOffset) { c.client.Load().MarkCommitOffsets(m) }
	return l
}

// AddRoutes begins more routes. It may be called while Run runs: the other
// routes notice no more than a rebalance, in which they keep their partitions.
// It fails, and changes nothing, when a topic has a route already. Not to be
// called at the same time as itself or RemoveRoutes.
func (c *Consumer) AddRoutes(ctx context.Context, routes ...Route) error {
	if err := c.hire(routes); err != nil {
		return err
	}
	topics := make([]string, len(routes))
	for i, r := range routes {
		topics[i] = r.Topic
	}
	c.withTopics(ctx, func(client *kgo.Client) { client.AddConsumeTopics(topics...) })
	return nil
}

// hire makes the lanes of routes and, while Run runs, starts them.
func (c *Consumer) hire(routes []Route) error {
	seen := map[string]bool{}
	for _, r := range routes {
		if seen[r.Topic] || c.lanes.of(r.Topic) != nil {
			return fmt.Errorf("route %s is there twice", r.Topic)
		}
		seen[r.Topic] = true
	}
	c.crew.mu.Lock()
	defer c.crew.mu.Unlock()
	if c.crew.ended {
		return nil // nobody is left to work
	}
	c.lanes.change(func(all map[string]*lane) {
		for _, r := range routes {
			all[r.Topic] = c.newLane(r)
			if c.crew.start != nil {
				c.crew.start(all[r.Topic])
			}
		}
	})
	return nil
}

// RemoveRoutes ends routes: what they have open is drained, within the limits
// of a revoke, and committed; then nothing of them goes on. What was not
// acknowledged is not committed either, so that whoever consumes the topic next
// begins there. It returns within about 15 s, however little answers.
func (c *Consumer) RemoveRoutes(ctx context.Context, topics ...string) {
	gone := map[string][]int32{}
	for _, topic := range topics {
		if c.lanes.of(topic) != nil {
			gone[topic] = nil
		}
	}
	if len(gone) == 0 {
		return
	}
	c.retire(gone, drainRevoke, drainQuiet)
	if client := c.client.Load(); client != nil {
		within(ctx, commitRevoke, func(ctx context.Context) { c.noteCommit(client.CommitMarkedOffsets(ctx)) })
	}
	var ending []*lane
	// A poll that is being handed over ends before: its lanes get all of it.
	c.delivering.Lock()
	c.lanes.change(func(all map[string]*lane) {
		for topic := range gone {
			ending = append(ending, all[topic])
			delete(all, topic)
		}
	})
	c.delivering.Unlock()
	c.withTopics(ctx, func(client *kgo.Client) { client.PurgeTopicsFromClient(topics...) })
	c.crew.mu.Lock()
	running := c.crew.start != nil
	c.crew.mu.Unlock()
	for _, l := range ending {
		if running {
			l.inbox.put(func() { l.end() })
			within(ctx, wakeEvery, func(context.Context) { <-l.ended })
		}
		c.gate.dismiss(l.route.Topic)
		c.lag.forget(l.route.Topic)
	}
}

// withTopics lets f change what the client consumes, one caller at a time and
// in the order of the calls, and waits for it for a while: the client's metadata
// loop does it, which may be waiting for a broker.
func (c *Consumer) withTopics(ctx context.Context, f func(*kgo.Client)) {
	client := c.client.Load()
	if client == nil {
		return
	}
	within(ctx, wakeEvery, func(context.Context) {
		c.topics.Lock()
		defer c.topics.Unlock()
		f(client)
	})
}
