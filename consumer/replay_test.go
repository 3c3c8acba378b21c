//go:build synctests

package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// again replays a range of orders in w. What was published is in the publisher.
func (w *world) again(ctx context.Context, r Range, adapt func(*ReplayOptions), script func(*request) time.Duration) (*Replayed, *scriptedPublisher, error) {
	pub := &scriptedPublisher{script: script}
	o := ReplayOptions{Topic: "orders", Range: r, Options: Options{
		Brokers: w.kafka.Brokers(), Group: testGroup, Cluster: "test", SessionTimeout: 20 * time.Second,
		Dial: w.kafka.Dial, Sizes: memberSizes(), Routes: []Route{{Topic: "orders", Destination: "projects/p/topics/orders"}},
		Events: func(e fault.Event) { w.t.Logf("event %+v", e) },
	}}
	if adapt != nil {
		adapt(&o)
	}
	done, err := Replay(ctx, o, pub)
	return done, pub, err
}

// everything is a range that no log exceeds.
func everything(n int32) Range { return Range{Partition: n, To: 1 << 40} }

// offsetsOfAll returns what was published, sorted.
func offsetsOfAll(p *scriptedPublisher) []int64 {
	var all []int64
	for _, q := range p.requests() {
		all = append(all, offsetsOf(q.records)...)
	}
	slices.Sort(all)
	return all
}

// fields returns each published message as it is on the wire, by its key.
func fields(p *scriptedPublisher) map[string]string {
	all := map[string]string{}
	for _, q := range p.requests() {
		for i, r := range q.records {
			all[r.key] = q.wire[i]
		}
	}
	return all
}

// deleteBelow lets a log of orders begin at start.
func (w *world) deleteBelow(n int32, start int64) {
	w.t.Helper()
	if err := w.kafka.DeleteRecords("orders", n, start); err != nil {
		w.t.Fatal(err)
	}
}

func upTo(first, next int64) []int64 {
	var all []int64
	for o := first; o < next; o++ {
		all = append(all, o)
	}
	return all
}

func TestReplayRepeatsTheMessagesByteForByte(t *testing.T) {
	for _, ordering := range []Ordering{OrderingNone, OrderingPartition} {
		t.Run(fmt.Sprintf("ordering %d", ordering), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, "orders")
				w.produce("orders", 2000, 300)
				m := w.join(memberSizes(), ordering, spread(300*time.Millisecond), "orders")
				w.within(2*time.Minute, "commits reach the log ends", w.allCommitted("orders"))
				commits := w.commits
				begun := time.Now()
				done, pub, err := w.again(t.Context(), Range{Since: begun.Add(-time.Hour), Until: begun.Add(time.Hour)}, func(o *ReplayOptions) {
					o.Routes[0].Ordering = ordering
				}, spread(300*time.Millisecond))
				if err != nil {
					t.Fatal(err)
				}
				if before, after := fields(m.pub), fields(pub); len(after) != 6000 || !maps.Equal(before, after) {
					t.Errorf("%d messages, want the 6000 that were published before", len(after))
				}
				for n, p := range done.Partitions {
					want := ReplayedPartition{Partition: int32(n), End: 2000, Next: 2000, Records: 2000, Bytes: 2000 * 300}
					if p != want {
						t.Errorf("%+v, want %+v", p, want)
					}
				}
				time.Sleep(time.Minute)
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.commits != commits {
					t.Errorf("%d commits at the broker, %d before the replay", w.commits, commits)
				}
			})
		})
	}
}

func TestReplayRanges(t *testing.T) {
	for _, tt := range []struct {
		name string
		Range
		fill func(*world)
		want ReplayedPartition
		got  []int64
	}{
		{
			"some offsets",
			Range{Partition: 1, From: 10, To: 20},
			func(w *world) { w.produce("orders", 100, 10) },
			ReplayedPartition{Partition: 1, First: 10, End: 20, Next: 20, Records: 10, Bytes: 100},
			upTo(10, 20),
		},
		{
			"beyond the log end",
			Range{Partition: 1, From: 90, To: 120},
			func(w *world) { w.produce("orders", 100, 10) },
			ReplayedPartition{Partition: 1, First: 90, End: 100, Next: 100, Records: 10, Bytes: 100, Ahead: 20},
			upTo(90, 100),
		},
		{
			"all beyond the log end",
			Range{Partition: 1, From: 110, To: 120},
			func(w *world) { w.produce("orders", 100, 10) },
			ReplayedPartition{Partition: 1, First: 110, End: 110, Next: 110, Ahead: 10},
			nil,
		},
		{
			"an empty log", everything(1), func(*world) {},
			ReplayedPartition{Partition: 1, Ahead: 1 << 40},
			nil,
		},
		{
			"below the log start",
			Range{Partition: 1, From: 10, To: 60},
			func(w *world) {
				w.produce("orders", 100, 10)
				w.deleteBelow(1, 50)
			},
			ReplayedPartition{Partition: 1, First: 50, End: 60, Next: 60, Records: 10, Bytes: 100, Gone: 40},
			upTo(50, 60),
		},
		{
			"all below the log start",
			Range{Partition: 1, From: 10, To: 40},
			func(w *world) {
				w.produce("orders", 100, 10)
				w.deleteBelow(1, 50)
			},
			ReplayedPartition{Partition: 1, First: 40, End: 40, Next: 40, Gone: 30},
			nil,
		},
		{
			"the end of an aborted transaction",
			Range{Partition: 0, From: 5, To: 28},
			func(w *world) {
				w.produce("orders", 10, 10)
				w.transaction("orders", false, 20)
				w.transaction("orders", true, 3)
			},
			ReplayedPartition{First: 5, End: 28, Next: 28, Records: 5, Bytes: 50, Holes: 18},
			upTo(5, 10),
		},
		{
			"a log that ends in an aborted transaction",
			Range{Partition: 0, To: 31},
			func(w *world) {
				w.produce("orders", 10, 10)
				w.transaction("orders", false, 20)
			},
			ReplayedPartition{End: 31, Next: 31, Records: 10, Bytes: 100, Holes: 21},
			upTo(0, 10),
		},
		{
			"nothing but holes",
			Range{Partition: 0, From: 12, To: 20},
			func(w *world) {
				w.produce("orders", 10, 10)
				w.transaction("orders", false, 20)
			},
			ReplayedPartition{First: 12, End: 20, Next: 20, Holes: 8},
			nil,
		},
		{
			"across transactions",
			Range{Partition: 0, To: 14},
			func(w *world) {
				w.transaction("orders", true, 5)
				w.transaction("orders", false, 2)
				w.transaction("orders", true, 4)
			},
			ReplayedPartition{End: 14, Next: 14, Records: 9, Bytes: 9 * 16, Holes: 5},
			append(upTo(0, 5), upTo(9, 13)...),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, "orders")
				tt.fill(w)
				began := time.Now()
				done, pub, err := w.again(t.Context(), tt.Range, nil, spread(time.Second))
				if err != nil {
					t.Fatal(err)
				}
				if len(done.Partitions) != 1 || done.Partitions[0] != tt.want {
					t.Errorf("%+v, want %+v", done.Partitions, tt.want)
				}
				if got := offsetsOfAll(pub); !slices.Equal(got, tt.got) {
					t.Errorf("offsets %v, want %v", got, tt.got)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestReplayRefusesRangesThatCannotBe(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		Range
		topic string
	}{
		{"backwards", Range{From: 20, To: 10}, "orders"},
		{"empty", Range{From: 20, To: 20}, "orders"},
		{"negative offset", Range{From: -1, To: 10}, "orders"},
		{"negative partition", Range{Partition: -1, To: 10}, "orders"},
		{"times backwards", Range{Since: now, Until: now.Add(-time.Second)}, "orders"},
		{"no until", Range{Since: now}, "orders"},
		{"no such partition", Range{Partition: 3, To: 10}, "orders"},
		{"no such route", Range{To: 10}, "payments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, "orders")
				done, _, err := w.again(t.Context(), tt.Range, func(o *ReplayOptions) { o.Topic = tt.topic }, never)
				if fault.Code(err) != fault.CodeUsage || done != nil {
					t.Errorf("%v with exit code %d, want 2", err, fault.Code(err))
				}
			})
		})
	}
}

func TestReplayKeepsItsRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.produce("orders", 500, 10)
		began := time.Now()
		_, pub, err := w.again(t.Context(), Range{Since: began.Add(-time.Hour), Until: began.Add(time.Hour)}, func(o *ReplayOptions) { o.Rate = 50 }, spread(0))
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 29*time.Second || took > 33*time.Second {
			t.Errorf("1500 records at 50 a second took %v", took)
		}
		byThen := 0
		for _, q := range pub.requests() {
			byThen += len(q.records)
			if most := 60 + 50*q.at.Sub(began).Seconds(); float64(byThen) > most {
				t.Fatalf("%d records after %v", byThen, q.at.Sub(began))
			}
		}
	})
}

// What is said to be done is acknowledged, and going on from there completes it.
func TestReplayStopsInTheMiddle(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		t.Run(fmt.Sprintf("destination stuck %v", stuck), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, "orders")
				w.produce("orders", 3000, 100)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var stopped time.Time
				time.AfterFunc(10*time.Second, func() { stopped = time.Now(); stop() })
				acked := map[int64]bool{}
				done, pub, err := w.again(ctx, everything(2), func(o *ReplayOptions) { o.Rate = 100 }, func(q *request) time.Duration {
					if stuck && q.batch.Spans[0].First > 500 {
						q.batch.SetStalled(true)
						return -1
					}
					return 200 * time.Millisecond
				})
				if !errors.Is(err, context.Canceled) || done == nil {
					t.Fatalf("%+v, %v", done, err)
				}
				if took := time.Since(stopped); took > time.Second {
					t.Errorf("the stop took %v", took)
				}
				for _, q := range pub.requests() {
					if !q.cancelled() {
						for _, r := range q.records {
							acked[r.offset] = true
						}
					}
				}
				part := done.Partitions[0]
				if part.Next < 500 || part.Next >= part.End {
					t.Errorf("stopped at %d of %d", part.Next, part.End)
				}
				for o := range part.Next {
					if !acked[o] {
						t.Fatalf("go on from %d, but %d is not acknowledged", part.Next, o)
					}
				}
				_, rest, err := w.again(t.Context(), Range{Partition: 2, From: part.Next, To: part.End}, nil, spread(0))
				if err != nil || !slices.Equal(offsetsOfAll(rest), upTo(part.Next, 3000)) {
					t.Errorf("the rest: %d offsets, %v", len(offsetsOfAll(rest)), err)
				}
			})
		})
	}
}
