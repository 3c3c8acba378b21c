package sink

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

func TestPublish(t *testing.T) {
	twice := slices.Concat(run(0, 5), run(0, 5))
	tests := []struct {
		name    string
		script  fakepubsub.Script
		want    []int
		retries int64
		within  time.Duration
	}{
		{"accepted", nil, run(0, 5), 0, time.Second},
		{"stored, then an error", fakepubsub.First(1, fakepubsub.Fault{Code: codes.DeadlineExceeded, Stored: true}), twice, 1, time.Second},
		{"one id too few", fakepubsub.First(1, fakepubsub.Fault{Ids: -1}), twice, 1, time.Second},
		{"one id too many", fakepubsub.First(1, fakepubsub.Fault{Ids: 1}), twice, 1, time.Second},
		{"no ids", fakepubsub.First(1, fakepubsub.Fault{Ids: -5}), twice, 1, time.Second},
		{"burst of Unavailable", fakepubsub.First(7, fakepubsub.Fault{Code: codes.Unavailable}), run(0, 5), 7, 30 * time.Second},
		{"Aborted", fakepubsub.First(1, fakepubsub.Fault{Code: codes.Aborted}), run(0, 5), 1, time.Second},
		{"Internal", fakepubsub.First(1, fakepubsub.Fault{Code: codes.Internal}), run(0, 5), 1, time.Second},
		{"Unknown", fakepubsub.First(1, fakepubsub.Fault{Code: codes.Unknown}), run(0, 5), 1, time.Second},
		{"the server's Canceled", fakepubsub.First(1, fakepubsub.Fault{Code: codes.Canceled}), run(0, 5), 1, time.Second},
		{"no answer in 60 s", fakepubsub.First(1, fakepubsub.Fault{Hang: true}), run(0, 5), 1, 61 * time.Second},
		{"stored, then the connection cut", fakepubsub.First(1, fakepubsub.Fault{Stored: true, Cut: true}), twice, 1, 10 * time.Second},
		{"quota of two minutes", fakepubsub.When(untilMinute(2), fakepubsub.Fault{Code: codes.ResourceExhausted}), run(0, 5), -1, 3 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, parking())
				b.server.Script(destination, tt.script)
				batch := newBatch(false, 0, 5, nil)
				if err := mustEnd(t, b.publish(t.Context(), batch), tt.within); err != nil {
					t.Fatal(err)
				}
				if got := b.offsets(destination); !slices.Equal(got, tt.want) {
					t.Errorf("stored %v, want %v", got, tt.want)
				}
				s := b.route()
				if s.Published != 5 || s.Parked != 0 || s.State != Running || s.InFlight != 0 {
					t.Errorf("snapshot %+v", s)
				}
				if tt.retries >= 0 && s.Retries != tt.retries {
					t.Errorf("%d retries, want %d", s.Retries, tt.retries)
				}
				if batch.Stalled() {
					t.Error("still stalled after success")
				}
			})
		})
	}
}

// untilMinute holds for n minutes from now.
func untilMinute(n int) func(*fakepubsub.Request) bool {
	var once sync.Once
	var end time.Time
	return func(*fakepubsub.Request) bool {
		once.Do(func() { end = time.Now().Add(time.Duration(n) * time.Minute) })
		return time.Now().Before(end)
	}
}

// An outage of minutes is no storm, is visible, and ends soon after the heal.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const inFlight, outage = 16, 5 * time.Minute
		b := newBench(t, parking())
		b.server.Script(destination, always(codes.Unavailable))
		var results []<-chan error
		var batches []*message.Batch
		for k := range inFlight {
			batches = append(batches, newBatch(false, k*10, k*10+10, nil))
			results = append(results, b.publish(t.Context(), batches[k]))
		}
		for begun := time.Now(); time.Since(begun) < outage; {
			time.Sleep(time.Second) // virtual
			synctest.Wait()
			if at := b.Snapshot().OldestWait; !at.IsZero() && time.Since(at) > stampEvery {
				t.Fatalf("oldest wait showed life %v ago", time.Since(at))
			}
		}
		s := b.route()
		if s.State != Retrying || s.LastError != "Unavailable: scripted: " {
			t.Errorf("snapshot %+v", s)
		}
		// 9 attempts of each until the window is 30 s wide, then one in 15 s.
		if limit := int64(inFlight * (9 + 20) * 3 / 2); s.Requests > limit {
			t.Errorf("%d requests in %v, want at most %d", s.Requests, outage, limit)
		}
		for _, batch := range batches {
			if !batch.Stalled() {
				t.Error("a batch in an outage is not stalled")
			}
		}
		b.server.Script(destination, nil)
		healed := time.Now()
		for _, r := range results {
			if err := mustEnd(t, r, backoffMax); err != nil {
				t.Error(err)
			}
		}
		// The first to get through wakes the others.
		if d := time.Since(healed); d > 10*time.Second {
			t.Errorf("the last batch was published %v after the outage", d)
		}
		if s := b.route(); s.State != Running || s.Published != inFlight*10 {
			t.Errorf("after the outage: %+v", s)
		}
	})
}

// A GOAWAY or a cut in the middle of traffic costs nothing but retries.
func TestConnectionsGo(t *testing.T) {
	for name, cut := range map[string]func(*fakepubsub.Server){
		"go away": (*fakepubsub.Server).GoAway, "cut": (*fakepubsub.Server).CutAll,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, parking())
				b.server.Script(destination, fakepubsub.Delay(func(*fakepubsub.Request) time.Duration { return 100 * time.Millisecond }))
				var results []<-chan error
				for k := range 8 {
					results = append(results, b.publish(t.Context(), newBatch(false, k*100, k*100+100, nil)))
				}
				time.Sleep(50 * time.Millisecond)
				cut(b.server)
				for _, r := range results {
					if err := mustEnd(t, r, 20*time.Second); err != nil {
						t.Error(err)
					}
				}
				got := b.offsets(destination)
				slices.Sort(got)
				if !slices.Equal(slices.Compact(got), run(0, 800)) {
					t.Errorf("stored %d different offsets, want 800", len(got))
				}
			})
		})
	}
}

// Publish returns at once when its context ends, whatever it does just then.
func TestPublishEnds(t *testing.T) {
	tests := []struct {
		name  string
		route Route
		at    func(*bench)
		batch *message.Batch
	}{
		{"during an RPC", parking(), func(b *bench) {
			b.server.Script(destination, fakepubsub.Always(fakepubsub.Fault{Hang: true}))
		}, newBatch(false, 0, 5, nil)},
		{"during a retry wait", parking(), func(b *bench) {
			b.server.Script(destination, always(codes.Unavailable))
		}, newBatch(false, 0, 5, nil)},
		{"while held", parking(), func(b *bench) {
			b.server.Script(destination, always(codes.PermissionDenied))
		}, newBatch(false, 0, 5, nil)},
		{"while isolating", parking(), func(b *bench) {
			b.server.Script(destination, fakepubsub.When(func(r *fakepubsub.Request) bool { return len(r.Messages) > 1 },
				fakepubsub.Fault{Code: codes.InvalidArgument, Delay: 3 * time.Second}))
		}, newBatch(false, 0, 1000, nil)},
		{"while the destination refuses everything", parking(), func(b *bench) {
			b.server.Script(destination, always(codes.InvalidArgument))
		}, newBatch(false, 0, 100, nil)},
		{"while parking hangs", parking(), func(b *bench) {
			b.server.Script(destination, poison(0))
			b.server.Script(deadLetter, fakepubsub.Always(fakepubsub.Fault{Hang: true}))
		}, newBatch(false, 0, 5, nil)},
		{"while parking retries", parking(), func(b *bench) {
			b.server.Script(destination, poison(0))
			b.server.Script(deadLetter, always(codes.Unavailable))
		}, newBatch(false, 0, 5, nil)},
		{"without a dead letter topic", parking(), func(b *bench) {
			b.server.Script(destination, poison(0))
			b.server.RemoveTopic(deadLetter)
		}, newBatch(false, 0, 5, nil)},
		{"with poison that holds", Route{Topic: "orders", Destination: destination}, func(b *bench) {
			b.server.Script(destination, poison(0))
		}, newBatch(false, 0, 5, nil)},
		{"with a record that cannot be parked", Route{Topic: "orders", Destination: destination}, func(*bench) {}, refusedBatch()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.route)
				tt.at(b)
				ctx, cancel := context.WithCancel(t.Context())
				result := b.publish(ctx, tt.batch)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				cancel()
				if err := mustEnd(t, result, 10*time.Millisecond); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				if s := b.Snapshot(); s.Routes[0].InFlight != 0 || !s.OldestWait.IsZero() {
					t.Errorf("something goes on: %+v", s)
				}
			})
		})
	}
}

func TestPublishUnknownRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		if err := b.Publish(t.Context(), &message.Batch{Route: "other"}); err == nil {
			t.Error("a batch of no route is accepted")
		}
		if err := b.Publish(t.Context(), &message.Batch{Route: "orders"}); err != nil {
			t.Errorf("an empty batch: %v", err)
		}
	})
}

// refusedBatch is a batch of one that the encoder refused.
func refusedBatch() *message.Batch {
	return newBatch(false, 7, 8, func(int) string { return string(make([]byte, message.MaxRequest)) })
}

func TestLongRetriesAreToldOnce(t *testing.T) {
	tests := []struct {
		name   string
		script fakepubsub.Script
		want   int
	}{
		{"a short burst is nobody's business", fakepubsub.First(3, fakepubsub.Fault{Code: codes.Unavailable}), 0},
		{"two minutes of Unavailable", fakepubsub.When(untilMinute(2), fakepubsub.Fault{Code: codes.Unavailable}), 1},
		{"an attempt without an answer", fakepubsub.First(1, fakepubsub.Fault{Hang: true}), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, parking())
				b.server.Script(destination, tt.script)
				if err := mustEnd(t, b.publish(t.Context(), newBatch(false, 0, 5, nil)), 5*time.Minute); err != nil {
					t.Fatal(err)
				}
				kinds, _ := b.kinds()
				told := 0
				for _, k := range kinds {
					if k == fault.RouteRetrying {
						told++
					}
				}
				if told != tt.want {
					t.Errorf("told %d times, want %d", told, tt.want)
				}
			})
		})
	}
}
