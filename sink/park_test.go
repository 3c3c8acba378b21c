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

// A record that the encoder refused goes to the dead-letter topic only.
func TestRefusedByEncoder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		if err := mustEnd(t, b.publish(t.Context(), refusedBatch()), time.Second); err != nil {
			t.Fatal(err)
		}
		if got := b.offsets(deadLetter); !slices.Equal(got, []int{7}) {
			t.Errorf("parked %v", got)
		}
		if got := b.stored.Of(destination); len(got) != 0 {
			t.Errorf("%d stored", len(got))
		}
		if k := b.stored.Of(deadLetter)[0]; k.Attributes[message.AttrParkedReason] != string(message.TooLarge) {
			t.Errorf("reason %q", k.Attributes[message.AttrParkedReason])
		}
	})
}

// A range that an operator skips stands on the dead-letter topic, also of a
// route that holds poison.
func TestSkippedRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := parking()
		r.HoldPoison = true
		b := newBench(t, r)
		batch := refusedBatch()
		batch.Refusal = &message.Refusal{Reason: message.Skipped, Detail: "offsets 7 to 11"}
		batch.Spans = []message.Span{{First: 7, Last: 11, Next: 12}}
		if err := mustEnd(t, b.publish(t.Context(), batch), time.Second); err != nil {
			t.Fatal(err)
		}
		parked := b.stored.Of(deadLetter)
		if len(parked) != 1 || parked[0].Attributes[message.AttrParkedReason] != "skipped" || parked[0].Attributes[message.AttrParkedDetail] != "offsets 7 to 11" {
			t.Errorf("parked %+v", parked)
		}
		if e := b.events[0]; len(b.events) != 1 || e.Kind != fault.RecordParked || e.First != 7 || e.Next != 12 {
			t.Errorf("told %+v", b.events)
		}
	})
}

// Parking is settled only when the dead-letter topic acknowledged.
func TestParkingRetries(t *testing.T) {
	tests := []struct {
		name  string
		fault fakepubsub.Fault
		want  []int
	}{
		{"Unavailable", fakepubsub.Fault{Code: codes.Unavailable}, []int{7}},
		{"stored, then an error", fakepubsub.Fault{Code: codes.Unknown, Stored: true}, []int{7, 7, 7, 7}},
		{"too few ids", fakepubsub.Fault{Ids: -1}, []int{7, 7, 7, 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, parking())
				b.server.Script(deadLetter, fakepubsub.First(3, tt.fault))
				if err := mustEnd(t, b.publish(t.Context(), refusedBatch()), 10*time.Second); err != nil {
					t.Fatal(err)
				}
				if got := b.offsets(deadLetter); !slices.Equal(got, tt.want) {
					t.Errorf("parked %v, want %v", got, tt.want)
				}
				if s := b.route(); s.Parked != 1 || s.Retries != 3 || s.State != Running {
					t.Errorf("snapshot %+v", s)
				}
			})
		})
	}
}

// A dead-letter topic that fails holds the route and says so.
func TestDeadLetterTopicFails(t *testing.T) {
	tests := []struct {
		name   string
		code   codes.Code
		reason string
	}{
		{"missing", codes.NotFound, "dead-letter topic: NotFound: create topic " + deadLetter},
		{"forbidden", codes.PermissionDenied, "dead-letter topic: PermissionDenied: grant roles/pubsub.publisher on " + deadLetter},
		{"refuses", codes.InvalidArgument, "dead-letter topic: InvalidArgument: let topic " + deadLetter + " take the messages (schema, ordering, size)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, parking())
				b.server.Script(destination, poison(2, 12))
				b.server.Script(deadLetter, always(tt.code))
				var results []<-chan error
				for k := range 3 {
					results = append(results, b.publish(t.Context(), newBatch(false, k*10, k*10+10, nil)))
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if s := b.route(); s.State != Held || s.Reason != tt.reason {
					t.Errorf("snapshot %+v", s)
				}
				b.server.Script(deadLetter, nil)
				for _, r := range results {
					if err := mustEnd(t, r, 2*probeMax); err != nil {
						t.Error(err)
					}
				}
				got := b.offsets(deadLetter)
				slices.Sort(got)
				if !slices.Equal(got, []int{2, 12}) {
					t.Errorf("parked %v", got)
				}
				kinds, _ := b.kinds()
				slices.Sort(kinds)
				if !slices.Equal(kinds, []fault.Kind{fault.RecordParked, fault.RecordParked, fault.RouteHeld, fault.RouteReleased}) {
					t.Errorf("events %v", kinds)
				}
			})
		})
	}
}

// A prober of the dead-letter topic that leaves frees the route for others.
func TestDeadLetterProberLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		b.server.RemoveTopic(deadLetter)
		ctx, cancel := context.WithCancel(t.Context())
		first := b.publish(ctx, refusedBatch())
		time.Sleep(time.Second)
		other := b.publish(t.Context(), newBatch(false, 10, 20, nil))
		time.Sleep(time.Minute)
		if len(other) > 0 {
			t.Fatal("published although the route is held")
		}
		cancel()
		<-first
		if err := mustEnd(t, other, probeMax); err != nil {
			t.Error(err)
		}
	})
}

// A destination that refuses everything is held, at little cost, with fewer
// than 20 records parked however many batches are in flight.
func TestDestinationRefusesEverything(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const inFlight, n = 16, 300
			b := newBench(t, parking())
			b.server.Script(destination, always(codes.InvalidArgument))
			var results []<-chan error
			for k := range inFlight {
				results = append(results, b.publish(t.Context(), newBatch(ordered, k*n, k*n+n, nil)))
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			s := b.route()
			want := "destination refuses everything: InvalidArgument: let topic " + destination + " take the messages (schema, ordering, size)"
			if s.State != Held || s.Reason != want {
				t.Errorf("snapshot %+v", s)
			}
			if s.Parked >= refusedInRow {
				t.Errorf("%d parked", s.Parked)
			}
			if s.Requests > 16*12+60 {
				t.Errorf("%d requests", s.Requests)
			}
			b.server.Script(destination, nil)
			for _, r := range results {
				if err := mustEnd(t, r, 2*probeMax); err != nil {
					t.Error(err)
				}
			}
			after := b.route()
			if after.Parked != s.Parked || after.Published != inFlight*n-s.Parked {
				t.Errorf("after the repair: %+v", after)
			}
			got := slices.Concat(b.offsets(destination), b.offsets(deadLetter))
			slices.Sort(got)
			if !slices.Equal(got, run(0, inFlight*n)) {
				t.Errorf("%d messages, want each of %d once", len(got), inFlight*n)
			}
		})
	}
}

// A run of real poison is parked in the end: other records show that the
// destination takes what is good.
func TestRunOfPoison(t *testing.T) {
	tests := []struct {
		name    string
		ordered bool
		others  bool // batches of another partition follow
	}{
		{"alone, unordered", false, false},
		{"with others, unordered", false, true},
		{"with others, ordered", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, parking())
				b.server.Script(destination, poison(run(10, 60)...))
				result := b.publish(t.Context(), newBatch(tt.ordered, 0, 200, nil))
				if tt.others {
					for k := 1; k < 10; k++ {
						time.Sleep(time.Minute)
						if err := mustEnd(t, b.publish(t.Context(), newBatch(tt.ordered, k*1000, k*1000+100, nil)), 3*time.Minute); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := mustEnd(t, result, time.Hour); err != nil {
					t.Fatal(err)
				}
				if got := b.offsets(deadLetter); !slices.Equal(slices.Sorted(slices.Values(got)), run(10, 60)) {
					t.Errorf("parked %v", got)
				}
				if s := b.route(); s.State != Running {
					t.Errorf("snapshot %+v", s)
				}
				mine := slices.DeleteFunc(b.offsets(destination), func(o int) bool { return o >= 1000 })
				if tt.ordered && !slices.IsSorted(mine) {
					t.Errorf("stored out of order: %v", mine)
				}
			})
		})
	}
}

// More than half of all records are refused: the route is held now and then,
// and each time that a probe is accepted counting begins anew.
func TestMostArePoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 900
		b := newBench(t, parking())
		bad := slices.DeleteFunc(run(0, n), func(o int) bool { return o%3 == 0 })
		b.server.Script(destination, poison(bad...))
		if err := mustEnd(t, b.publish(t.Context(), newBatch(false, 0, n, nil)), time.Hour); err != nil {
			t.Fatal(err)
		}
		if s := b.route(); s.Parked != int64(len(bad)) || s.Published != int64(n-len(bad)) {
			t.Errorf("snapshot %+v", s)
		}
		kinds, _ := b.kinds()
		held := len(slices.DeleteFunc(kinds, func(k fault.Kind) bool { return k != fault.RouteHeld }))
		if held != 1 {
			t.Errorf("held %d times, want once at the 501st of %d", held, len(bad))
		}
	})
}

// What the encoder refuses never counts against the destination.
func TestLocalRefusalsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		for range 2 * refusedInRow {
			batch := newBatch(false, 1, 2, nil)
			batch.Refusal = &message.Refusal{Reason: message.TooLarge, Detail: "11 MB"}
			if err := mustEnd(t, b.publish(t.Context(), batch), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if s := b.route(); s.Parked != 2*refusedInRow || s.State != Running {
			t.Errorf("snapshot %+v", s)
		}
	})
}

func TestRefusals(t *testing.T) {
	type step struct {
		accept, refuse int // refuse of them come after accept accepted ones
	}
	repeat := func(s step, n int) []step { return slices.Repeat([]step{s}, n) }
	tests := []struct {
		name  string
		steps []step
		want  bool
	}{
		{"19 in a row", []step{{0, 19}}, false},
		{"20 in a row", []step{{0, 20}}, true},
		{"19 and 19 with one between", []step{{0, 19}, {1, 19}}, false},
		{"half of 1,000", repeat(step{1, 1}, 500), false},
		{"two thirds of 750", repeat(step{1, 2}, 250), false},
		{"two thirds of 753", repeat(step{1, 2}, 251), true},
		{"old ones are forgotten", append(repeat(step{1, 2}, 250), append([]step{{1000, 0}}, repeat(step{1, 2}, 250)...)...), false},
		{"half of the window, then a good batch and one more", append(repeat(step{1, 2}, 250), step{200, 1}), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r refusals
			got := false
			for _, s := range tt.steps {
				if s.accept > 0 {
					r.accept(s.accept)
				}
				for range s.refuse {
					got = r.refuse()
				}
			}
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if r.reset(); r.refuse() {
				t.Error("one refusal after a reset is too many")
			}
		})
	}
}
