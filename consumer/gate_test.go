package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakePauser is the part of the Kafka client that pauses topics.
type fakePauser struct {
	mu     sync.Mutex // guards paused
	paused map[string]bool
}

func newPauser() *fakePauser { return &fakePauser{paused: map[string]bool{}} }

func (p *fakePauser) PauseFetchTopics(topics ...string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range topics {
		p.paused[t] = true
	}
	return nil
}

func (p *fakePauser) ResumeFetchTopics(topics ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range topics {
		delete(p.paused, t)
	}
}

func (p *fakePauser) is(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused[topic]
}

func routesNamed(n int) []Route {
	routes := make([]Route, n)
	for i := range routes {
		routes[i] = Route{Topic: fmt.Sprintf("t%d", i)}
	}
	return routes
}

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
)

func TestGatePausesAtTheShareAndResumesAtHalf(t *testing.T) {
	tests := []struct {
		name    string
		window  int64
		others  int64 // bytes another route has in hand
		pauseAt int64
	}{
		{"alone: half the window", 64 * mib, 0, 32 * mib},
		{"beside another: a quarter of what is free, its own counted as free", 64 * mib, 24 * mib, 10 * mib},
		{"window taken by others: the least share", 64 * mib, 64 * mib, 256 * kib},
		{"others beyond the window: the least share", 64 * mib, 80 * mib, 256 * kib},
		{"tiny window, alone: the least share", 400 * kib, 0, 256 * kib},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := newPauser()
			g := newGate(tt.window, client, routesNamed(2))
			if tt.others > 0 {
				g.take("t1", tt.others)
			}
			g.take("t0", tt.pauseAt-1)
			if client.is("t0") {
				t.Fatalf("paused at %d, below the share of %d", tt.pauseAt-1, tt.pauseAt)
			}
			g.take("t0", 1)
			if !client.is("t0") {
				t.Fatalf("not paused at the share, %d", tt.pauseAt)
			}
			g.give("t0", tt.pauseAt-tt.pauseAt/2-1)
			if !client.is("t0") {
				t.Error("resumed above half the share: each pause makes the client fetch again, so they must be rare")
			}
			g.give("t0", 1)
			if client.is("t0") {
				t.Error("not resumed at half the share")
			}
			if _, hands := g.hands(); hands["t0"].pauses != 1 || hands["t0"].paused || hands["t0"].bytes != tt.pauseAt/2 {
				t.Errorf("snapshot of the hand is %+v", hands["t0"])
			}
		})
	}
}

func TestGateAdmitsARecordLargerThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1*mib, newPauser(), routesNamed(2))
		pollOpens(t, g, true)
		g.take("t0", 8*mib)
		pollOpens(t, g, false)
		g.give("t0", 8*mib)
		pollOpens(t, g, true)

		// It is also admitted when most of the window is taken.
		g.take("t0", 1*mib-1)
		pollOpens(t, g, true)
		g.take("t1", 8*mib)
		pollOpens(t, g, false)
		g.give("t1", 8*mib)
		pollOpens(t, g, true)
		g.give("t0", 1*mib-1)
	})
}

// pollOpens checks whether the gate lets a poll pass within a second.
func pollOpens(t *testing.T, g *gate, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	g.wait(ctx, func() {})
	if got := ctx.Err() == nil; got != want {
		in, _ := g.hands()
		t.Errorf("a poll with %d of %d bytes in hand: passes is %v, want %v", in, g.window, got, want)
	}
}

func TestGateWaitsUntilAGive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1*mib, newPauser(), routesNamed(1))
		g.take("t0", 1*mib)
		time.AfterFunc(1500*time.Millisecond, func() { g.give("t0", 1) })
		began := time.Now()
		g.wait(t.Context(), func() {})
		if waited := time.Since(began); waited != 1500*time.Millisecond {
			t.Errorf("waited %v for a give after 1.5 s", waited)
		}
	})
}

func TestGateWaitWakesEachFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1*mib, newPauser(), routesNamed(1))
		g.take("t0", 2*mib)
		// The route moves a little, so its bytes count.
		trickle := time.NewTicker(3 * time.Second)
		defer trickle.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			for {
				select {
				case <-trickle.C:
					g.give("t0", 1)
				case <-ctx.Done():
					return
				}
			}
		}()
		last := time.Now()
		g.wait(ctx, func() {
			if since := time.Since(last); since > 5*time.Second {
				t.Errorf("no stamp for %v", since)
			}
			last = time.Now()
		})
		if ctx.Err() == nil {
			t.Error("the wait ended with the window full of bytes that move")
		}
		if since := time.Since(last); since > 5*time.Second {
			t.Errorf("the last stamp is %v old", since)
		}
	})
}

// TestGatePauseCannotOutliveTheHand lets many routes take and give at random:
// a route without bytes in hand is never paused, since no give would ever
// resume it.
func TestGatePauseCannotOutliveTheHand(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		client := newPauser()
		routes := routesNamed(1 + rng.IntN(6))
		g := newGate(4*mib, client, routes)
		inHand, pauses := map[string]int64{}, 0
		for range 400 {
			topic := routes[rng.IntN(len(routes))].Topic
			if !client.is(topic) && rng.IntN(2) == 0 {
				n := 1 + rng.Int64N(3*mib)
				g.take(topic, n)
				inHand[topic] += n
				if client.is(topic) {
					pauses++
				}
			} else if inHand[topic] > 0 {
				n := inHand[topic]
				if rng.IntN(3) > 0 {
					n = 1 + rng.Int64N(n)
				}
				g.give(topic, n)
				inHand[topic] -= n
			}
			for _, r := range routes {
				if client.is(r.Topic) && inHand[r.Topic] == 0 {
					t.Fatalf("seed %d: %s is paused with nothing in hand", seed, r.Topic)
				}
			}
		}
		if pauses == 0 {
			t.Fatalf("seed %d: nothing was ever paused", seed)
		}
	}
}

// TestGateHeldRoutesNeverStopOneThatMoves fills 24 held routes through polls
// that overshoot, then polls for one that gives back what it took.
func TestGateHeldRoutesNeverStopOneThatMoves(t *testing.T) {
	for _, poll := range []int64{64 * kib, 1 * mib, 6 * mib, 20 * mib} {
		t.Run(fmt.Sprintf("polls of %d KiB", poll/kib), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newPauser()
				g := newGate(32*mib, client, routesNamed(25))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for i := range 24 {
					held := fmt.Sprintf("t%d", i)
					for !client.is(held) {
						if g.wait(ctx, func() {}); ctx.Err() != nil {
							t.Fatalf("polling stopped while route %d of 24 held ones filled", i)
						}
						g.take(held, poll)
					}
				}
				if in, _ := g.hands(); in < 24*leastShare {
					t.Fatalf("the held routes have %d bytes only", in)
				}
				moved := 0
				began := time.Now()
				for time.Since(began) < time.Minute {
					g.wait(ctx, func() {})
					if client.is("t24") {
						t.Fatal("the route that moves stays paused with nothing in hand")
					}
					g.take("t24", poll)
					done := make(chan struct{})
					time.AfterFunc(100*time.Millisecond, func() { g.give("t24", poll); close(done) })
					<-done
					moved++
				}
				// 600 polls fit; the first wait may be until the others count as stuck.
				if moved < 500 {
					t.Errorf("the moving route polled %d times in a minute, want nearly 600", moved)
				}
			})
		})
	}
}
