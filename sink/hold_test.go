package sink

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// A held route is probed by one batch of one, slowly, and goes on where it was.
func TestHoldAndRelease(t *testing.T) {
	tests := []struct {
		name   string
		code   codes.Code
		reason string
	}{
		{"forbidden", codes.PermissionDenied, "PermissionDenied: grant roles/pubsub.publisher on " + destination},
		{"missing", codes.NotFound, "NotFound: create topic " + destination},
		{"no identity", codes.Unauthenticated, "Unauthenticated: give the bridge a valid Google identity that may publish to " + destination},
		{"broken", codes.FailedPrecondition, "FailedPrecondition: repair topic " + destination + " (encryption key, schema, storage policy or ingestion)"},
		{"unclassified", codes.Unimplemented, "Unimplemented: destination answers what nobody expects; ask Pub/Sub about " + destination},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const inFlight = 8
				b := newBench(t, parking())
				var sizes []int
				b.server.Script(destination, func(r *fakepubsub.Request) fakepubsub.Fault {
					b.mu.Lock()
					defer b.mu.Unlock()
					sizes = append(sizes, len(r.Messages))
					return fakepubsub.Fault{Code: tt.code}
				})
				begun := time.Now()
				var results []<-chan error
				var batches []*message.Batch
				for k := range inFlight {
					batches = append(batches, newBatch(false, k*10, k*10+10, nil))
					results = append(results, b.publish(t.Context(), batches[k]))
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				s := b.route()
				if s.State != Held || s.Reason != tt.reason || s.Since.Sub(begun) > time.Second {
					t.Errorf("snapshot %+v", s)
				}
				b.mu.Lock()
				probes := slices.DeleteFunc(sizes, func(n int) bool { return n > 1 })
				first := len(sizes) - len(probes)
				b.mu.Unlock()
				// At 5, 15, 35 and 75 s, then each 60 s.
				if len(probes) != 12 || first < 1 || first > inFlight {
					t.Errorf("%d whole batches and %d probes in 10 minutes", first, len(probes))
				}
				for _, batch := range batches {
					if !batch.Stalled() {
						t.Error("a held batch is not stalled")
					}
				}
				b.server.Script(destination, nil)
				for _, r := range results {
					if err := mustEnd(t, r, probeMax); err != nil {
						t.Error(err)
					}
				}
				got := b.offsets(destination)
				slices.Sort(got)
				if !slices.Equal(got, run(0, inFlight*10)) {
					t.Errorf("stored %v", got)
				}
				if kinds, _ := b.kinds(); !slices.Equal(kinds, []fault.Kind{fault.RouteHeld, fault.RouteReleased}) {
					t.Errorf("events %v", kinds)
				}
			})
		})
	}
}

// The right to probe moves on when the prober's context ends.
func TestProberLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		b.server.Script(destination, always(codes.NotFound))
		ctx, cancel := context.WithCancel(t.Context())
		first := b.publish(ctx, newBatch(false, 0, 10, nil))
		time.Sleep(time.Second)
		second := b.publish(t.Context(), newBatch(false, 10, 20, nil))
		time.Sleep(20 * time.Second)
		cancel()
		if err := mustEnd(t, first, time.Second); err == nil {
			t.Fatal("the first batch was published")
		}
		b.server.Script(destination, nil)
		if err := mustEnd(t, second, probeMax); err != nil {
			t.Fatal(err)
		}
		if got := b.offsets(destination); !slices.Equal(got, run(10, 20)) {
			t.Errorf("stored %v", got)
		}
		// The hold outlives everybody who could probe; the next batch does.
		b.server.Script(destination, always(codes.NotFound))
		ctx, cancel = context.WithCancel(t.Context())
		alone := b.publish(ctx, newBatch(false, 20, 30, nil))
		time.Sleep(time.Second)
		cancel()
		<-alone
		b.server.Script(destination, nil)
		if err := mustEnd(t, b.publish(t.Context(), newBatch(false, 20, 30, nil)), 2*probeMin); err != nil {
			t.Fatal(err)
		}
		if s := b.route(); s.State != Running {
			t.Errorf("state %s", s.State)
		}
	})
}

// A new reason for the same hold is told once, and errors of the line between
// do not end it.
func TestHoldChangesReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		answer := func(c codes.Code) {
			b.server.Script(destination, always(c))
			time.Sleep(2 * probeMax)
			synctest.Wait()
		}
		result := b.publish(t.Context(), newBatch(false, 0, 10, nil))
		b.server.Script(destination, always(codes.NotFound))
		answer(codes.NotFound)
		answer(codes.Unavailable)
		if s := b.route(); s.State != Held || s.Reason != "NotFound: create topic "+destination {
			t.Errorf("snapshot %+v", s)
		}
		answer(codes.PermissionDenied)
		answer(codes.OK)
		if err := mustEnd(t, result, time.Second); err != nil {
			t.Error(err)
		}
		want := []fault.Kind{fault.RouteHeld, fault.RouteHeld, fault.RouteReleased}
		if kinds, _ := b.kinds(); !slices.Equal(kinds, want) {
			t.Errorf("events %v, want %v", kinds, want)
		}
	})
}

// A probe that is refused as a record shows that the destination is back.
func TestProbeIsPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		b.server.Script(destination, always(codes.NotFound))
		result := b.publish(t.Context(), newBatch(false, 0, 10, nil))
		time.Sleep(time.Second)
		b.server.Script(destination, poison(0))
		if err := mustEnd(t, result, probeMax); err != nil {
			t.Fatal(err)
		}
		if got := b.offsets(destination); !slices.Equal(got, run(1, 10)) {
			t.Errorf("stored %v", got)
		}
		if got := b.offsets(deadLetter); !slices.Equal(got, []int{0}) {
			t.Errorf("parked %v", got)
		}
	})
}

// A batch whose hold ends twice at different places still has every message
// once: what a probe delivered is not sent again.
func TestEverythingHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		// Each second request is forbidden, whatever it is.
		n := 0
		b.server.Script(destination, fakepubsub.When(func(*fakepubsub.Request) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			n++
			return n%3 != 0
		}, fakepubsub.Fault{Code: codes.PermissionDenied}))
		result := b.publish(t.Context(), newBatch(true, 0, 4, nil))
		if err := mustEnd(t, result, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := b.offsets(destination); !slices.Equal(got, run(0, 4)) {
			t.Errorf("stored %v", got)
		}
	})
}

// A hold needs somebody who probes: when the last batch of a route was taken
// away, by a revoke, nothing says any more that the destination is broken.
func TestHoldEndsWithItsLastBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		b.server.Script(destination, always(codes.PermissionDenied))
		ctx, abandon := context.WithCancel(t.Context())
		first, second := b.publish(ctx, newBatch(false, 0, 5, nil)), b.publish(t.Context(), newBatch(false, 5, 9, nil))
		time.Sleep(time.Minute)
		abandon()
		if err := mustEnd(t, first, time.Second); err == nil {
			t.Error("an abandoned batch was published")
		}
		if s := b.route(); s.State != Held {
			t.Errorf("the route is %s while a batch of it is held", s.State)
		}
		b.server.Script(destination, nil)
		if err := mustEnd(t, second, probeMax); err != nil {
			t.Error(err)
		}
		b.server.Script(destination, always(codes.PermissionDenied))
		ctx, abandon = context.WithCancel(t.Context())
		last := b.publish(ctx, newBatch(false, 0, 5, nil))
		time.Sleep(time.Minute)
		abandon()
		_ = mustEnd(t, last, time.Second)
		if s := b.route(); s.State != Running || s.Reason != "" {
			t.Errorf("the route is %s (%s) with nothing to publish", s.State, s.Reason)
		}
		held, released := fault.RouteHeld, fault.RouteReleased
		if kinds, _ := b.kinds(); !slices.Equal(kinds, []fault.Kind{held, released, held, released}) {
			t.Errorf("events %v", kinds)
		}
	})
}

// The batch that waited for the dead-letter topic is taken away, and the next
// one begins with poison, too: it must ask the dead-letter topic in its place.
func TestHoldForDeadLetterPassesToTheNextPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		b.server.Script(destination, poison(0, 5))
		b.server.Script(deadLetter, always(codes.PermissionDenied))
		ctx, abandon := context.WithCancel(t.Context())
		first := b.publish(ctx, newBatch(true, 0, 5, nil))
		time.Sleep(time.Minute)
		second := b.publish(t.Context(), newBatch(true, 5, 9, nil))
		time.Sleep(time.Minute)
		abandon()
		_ = mustEnd(t, first, time.Second)
		time.Sleep(2 * probeMax)
		if s := b.route(); s.State != Held {
			t.Errorf("the route is %s while the dead-letter topic is forbidden", s.State)
		}
		b.server.Script(deadLetter, nil)
		if err := mustEnd(t, second, 2*probeMax); err != nil {
			t.Error(err)
		}
		if got := b.offsets(deadLetter); !slices.Equal(got, []int{5}) {
			t.Errorf("parked %v", got)
		}
	})
}
