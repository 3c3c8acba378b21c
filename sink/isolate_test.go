package sink

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// extra is the most requests that isolating and parking p of n records costs.
func extra(p, n int) int { return 2*p*bits.Len(uint(n-1)) + 2 + p }

func TestPoisonAtEachPosition(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 33} {
		for at := range n {
			t.Run(strconv.Itoa(at)+" of "+strconv.Itoa(n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkPoison(t, n, []int{at}) })
			})
		}
	}
}

func TestPoisonInLargeBatch(t *testing.T) {
	for name, at := range map[string][]int{
		"first": {0}, "last": {999}, "middle": {499, 500}, "three": {3, 333, 998},
		"fifteen in a row": run(100, 115),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkPoison(t, 1000, at) })
		})
	}
}

// checkPoison publishes one batch of n records, of which those at the given
// offsets are refused.
func checkPoison(t *testing.T, n int, at []int) {
	t.Helper()
	b := newBench(t, parking())
	b.server.Script(destination, poison(at...))
	if err := mustEnd(t, b.publish(t.Context(), newBatch(true, 0, n, nil)), time.Second); err != nil {
		t.Fatal(err)
	}
	healthy := slices.DeleteFunc(run(0, n), func(o int) bool { return slices.Contains(at, o) })
	if got := b.offsets(destination); !slices.Equal(got, healthy) {
		t.Errorf("stored %v, want all but %v in order", got, at)
	}
	if got := b.offsets(deadLetter); !slices.Equal(got, at) {
		t.Errorf("parked %v, want %v", got, at)
	}
	if got, most := b.requests()-1, extra(len(at), n); got > most {
		t.Errorf("%d extra requests for %d of %d, want at most %d", got, len(at), n, most)
	}
	if s := b.route(); s.Published != int64(len(healthy)) || s.Parked != int64(len(at)) {
		t.Errorf("snapshot %+v", s)
	}
}

func TestParkedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		b.server.Script(destination, fakepubsub.When(func(r *fakepubsub.Request) bool {
			return r.Any(func(m *fakepubsub.Message) bool { return string(m.Data) == "secret canary" })
		}, fakepubsub.Fault{Code: codes.InvalidArgument, Text: "attribute of secret canary refused"}))
		batch := newBatch(false, 40, 44, func(offset int) string { return map[int]string{42: "secret canary"}[offset] })
		size := len(batch.Part(2, 3))
		if err := mustEnd(t, b.publish(t.Context(), batch), time.Second); err != nil {
			t.Fatal(err)
		}
		parked := b.stored.Of(deadLetter)
		if len(parked) != 1 {
			t.Fatalf("%d parked", len(parked))
		}
		for name, want := range map[string]string{
			message.AttrParkedReason: "refused", message.AttrParkedDetail: "Pub/Sub answered InvalidArgument",
			message.AttrParkedDestination: destination, message.AttrOffset: "42",
		} {
			if got := parked[0].Attributes[name]; got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		want := fault.Event{
			Kind: fault.RecordParked, Topic: "orders", Partition: 3, First: 42, Next: 43,
			Size: int64(size), Reason: "refused: Pub/Sub answered InvalidArgument",
		}
		if len(b.events) != 1 || b.events[0] != want {
			t.Errorf("events %+v, want %+v", b.events, want)
		}
		if s := b.route(); s.LastError != "InvalidArgument" {
			t.Errorf("last error %q", s.LastError)
		}
	})
}

// Order is kept under poison and errors of every kind at once: the server may
// store a part twice, but never a record before an earlier one.
func TestOrderedRouteKeepsOrder(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, parking())
			random := rand.New(rand.NewPCG(seed, 0))
			var bad []int
			for range random.IntN(6) {
				bad = append(bad, random.IntN(300))
			}
			chance := func(n uint64, f fakepubsub.Fault) fakepubsub.Script { return fakepubsub.Chance(seed*10+n, 0.1, f) }
			b.server.Script(destination, fakepubsub.Join(
				chance(1, fakepubsub.Fault{Code: codes.Unavailable, Stored: true}),
				chance(2, fakepubsub.Fault{Code: codes.PermissionDenied}),
				chance(3, fakepubsub.Fault{Ids: -1}),
				chance(4, fakepubsub.Fault{Hang: true, Stored: true}),
				chance(5, fakepubsub.Fault{Cut: true}),
				poison(bad...)))
			for k := range 3 {
				if err := mustEnd(t, b.publish(t.Context(), newBatch(true, k*100, k*100+100, nil)), 24*time.Hour); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			next, parked := 0, b.offsets(deadLetter)
			for _, o := range b.offsets(destination) {
				for next < o && slices.Contains(parked, next) {
					next++
				}
				if o > next {
					t.Fatalf("seed %d: %d stored although %d was not", seed, o, next)
				}
				next = max(next, o+1)
			}
			for next < 300 && slices.Contains(parked, next) {
				next++
			}
			if next != 300 {
				t.Errorf("seed %d: stopped at %d", seed, next)
			}
			for _, o := range parked {
				// What a fault let through may have been stored before it was refused.
				if !slices.Contains(bad, o) {
					t.Errorf("seed %d: %d parked, which is no poison", seed, o)
				}
			}
		})
	}
}

func TestPoisonHolds(t *testing.T) {
	tests := []struct {
		name  string
		route Route
	}{
		{"no dead-letter topic", Route{Topic: "orders", Destination: destination}},
		{"on_poison hold", Route{Topic: "orders", Destination: destination, DeadLetter: deadLetter, HoldPoison: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.route)
				b.server.Script(destination, poison(5))
				result := b.publish(t.Context(), newBatch(false, 0, 10, nil))
				time.Sleep(time.Second)
				other := b.publish(t.Context(), newBatch(false, 10, 20, nil))
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				s := b.route()
				want := "record 3/5 cannot be published (refused: Pub/Sub answered InvalidArgument): " +
					"set a dead-letter topic and on_poison park, or repair " + destination
				if s.State != Held || s.Reason != want || s.Parked != 0 {
					t.Errorf("snapshot %+v", s)
				}
				if got := b.offsets(destination); !slices.Equal(got, run(0, 5)) {
					t.Errorf("stored %v", got)
				}
				b.server.Script(destination, nil)
				if err := mustEnd(t, result, probeMax); err != nil {
					t.Error(err)
				}
				if err := mustEnd(t, other, time.Second); err != nil {
					t.Error(err)
				}
				kinds, _ := b.kinds()
				if !slices.Equal(kinds, []fault.Kind{fault.RouteHeld, fault.RouteReleased}) {
					t.Errorf("events %v", kinds)
				}
			})
		})
	}
}

// When the batch that holds a route goes, the next one that cannot be published
// takes the hold over, under its own name; one that can be releases it.
func TestBlockedRecordLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Route{Topic: "orders", Destination: destination})
		b.server.Script(destination, poison(5, 15))
		leaving := func(first int) (context.CancelFunc, <-chan error) {
			ctx, cancel := context.WithCancel(t.Context())
			result := b.publish(ctx, newBatch(false, first, first+1, nil))
			time.Sleep(time.Second)
			return cancel, result
		}
		leaveA, a := leaving(5)
		leaveB, second := leaving(15)
		leaveA()
		<-a
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := b.route(); s.State != Held || !strings.HasPrefix(s.Reason, "record 3/15 cannot be published") {
			t.Errorf("snapshot %+v", s)
		}
		leaveB()
		<-second
		if err := mustEnd(t, b.publish(t.Context(), newBatch(false, 20, 30, nil)), probeMax); err != nil {
			t.Error(err)
		}
	})
}
