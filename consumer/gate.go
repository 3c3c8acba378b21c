package consumer

import (
	"context"
	"sync"
	"time"
)

const (
	// leastShare is what a route may always have in hand, whatever others hold.
	leastShare = 256 << 10
	// stuckAfter is how long a route with bytes in hand may give none back
	// before its bytes stop counting against the routes that move.
	stuckAfter = 5 * time.Second
)

// gate counts the bytes between poll and acknowledgement. The poll loop takes
// them and waits while the window is full; lanes give them back. It pauses a
// route at its share and resumes it at half of that.
//
// Why it cannot deadlock: a record is accounted after it was polled, so one
// that is larger than what is left passes when less than the window is in hand;
// a paused route has bytes in hand, so a give must follow that resumes it; and
// when routes that do not move fill the window, the others still get an eighth
// of it (a paused route brings nothing, so what is polled then is theirs).
type gate struct {
	window int64
	client pauser
	wake   chan struct{} // written by give, read by wait; one token is enough

	mu     sync.Mutex // guards all below
	inHand int64
	shares map[string]*share
}

// share is what one route has in hand.
type share struct {
	inHand int64
	paused bool
	pauses int64
	moved  time.Time // last give, or the take that ended an empty hand
}

// pauser is the part of the Kafka client that the gate needs.
type pauser interface {
	PauseFetchTopics(topics ...string) []string
	ResumeFetchTopics(topics ...string)
}

func newGate(window int64, client pauser, routes []Route) *gate {
	g := &gate{window: window, client: client, wake: make(chan struct{}, 1), shares: make(map[string]*share, len(routes))}
	for _, r := range routes {
		g.admit(r.Topic)
	}
	return g
}

// admit gives topic a share, unless it has one.
func (g *gate) admit(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shares[topic] == nil {
		g.shares[topic] = &share{}
	}
}

// dismiss takes the share of topic away, unless something is in hand.
func (g *gate) dismiss(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.shares[topic]; s != nil && s.inHand == 0 {
		delete(g.shares, topic)
	}
}

// take accounts n bytes that were polled for topic, and pauses the topic at its
// share. It never blocks.
func (g *gate) take(topic string, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shares[topic]
	if s.inHand == 0 {
		s.moved = time.Now()
	}
	s.inHand += n
	g.inHand += n
	// Pause and resume happen under one lock: a late pause that overtook the
	// resume of an empty hand would stop the route for ever.
	if !s.paused && s.inHand >= g.shareLocked(s) {
		s.paused = true
		s.pauses++
		g.client.PauseFetchTopics(topic)
	}
}

// give returns n bytes of topic that were settled, abandoned or dropped.
func (g *gate) give(topic string, n int64) {
	g.mu.Lock()
	s := g.shares[topic]
	s.inHand -= n
	s.moved = time.Now()
	g.inHand -= n
	if s.paused && s.inHand <= g.shareLocked(s)/2 {
		s.paused = false
		g.client.ResumeFetchTopics(topic)
	}
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// shareLocked is what the route of s may have in hand: half the window while it
// is alone, else a quarter of what is free with its own bytes counted as free.
func (g *gate) shareLocked(s *share) int64 {
	if g.inHand == s.inHand {
		return max(g.window/2, leastShare)
	}
	return max((g.window-g.inHand+s.inHand)/4, leastShare)
}

// wait blocks until a poll may be made or ctx ends. stamp is called each time
// it wakes, at least every five seconds. It reports whether the window is full,
// so that the poll is for routes that move beside others that do not.
func (g *gate) wait(ctx context.Context, stamp func()) (full bool) {
	for {
		stamp()
		open, full := g.openNow(time.Now())
		if open {
			return full
		}
		timer := time.NewTimer(wakeEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return full
		case <-g.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (g *gate) openNow(now time.Time) (open, full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inHand < g.window {
		return true, false
	}
	var moving int64
	for _, s := range g.shares {
		if now.Sub(s.moved) < stuckAfter {
			moving += s.inHand
		}
	}
	return moving < g.window/8, true
}

// hand is a copy of one route's share, for snapshots.
type hand struct {
	bytes  int64
	paused bool
	pauses int64
}

// hands returns the bytes in hand in all, and by route.
func (g *gate) hands() (int64, map[string]hand) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := make(map[string]hand, len(g.shares))
	for t, s := range g.shares {
		m[t] = hand{bytes: s.inHand, paused: s.paused, pauses: s.pauses}
	}
	return g.inHand, m
}
