package consumer

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/message"
)

func TestLaneSealsAtAThousandMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		r.poll(0, polled(0, 2500)...)
		for i, q := range r.inFlight(2) {
			if q.batch.Len() != 1000 {
				t.Errorf("batch %d has %d messages, want 1000", i, q.batch.Len())
			}
			q.ack()
		}
		time.Sleep(20 * time.Millisecond)
		if last := r.inFlight(1)[0]; last.batch.Len() != 500 {
			t.Errorf("the rest has %d messages, want 500", last.batch.Len())
		} else {
			last.ack()
		}
		r.wantMark(0, 2500)
	})
}

func TestLaneSendsAFullSlabAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		r.poll(0, polled(0, 1000)...)
		if q := r.inFlight(1)[0]; q.batch.Len() != 1000 {
			t.Errorf("%d messages, want 1000", q.batch.Len())
		}
		r.poll(0, polled(1000, 2000)...)
		r.inFlight(2)
	})
}

func TestLaneSealsAtTheByteLimit(t *testing.T) {
	const limit = 100 << 10
	tests := []struct {
		name  string
		sizes []int // of values
		want  []int // messages of each batch
	}{
		{"as many as fit", []int{33 << 10, 33 << 10, 33 << 10, 33 << 10}, []int{3, 1}},
		{"one that does not fit goes into the next", []int{60 << 10, 60 << 10, 10 << 10}, []int{1, 2}},
		{"one above the limit goes alone", []int{1 << 10, 200 << 10, 1 << 10}, []int{1, 1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				sizes := testSizes()
				sizes.SlabBytes, sizes.Linger, sizes.InFlight = limit, 0, 10
				r := newRig(t, OrderingNone, sizes, 0)
				var records []*kgo.Record
				for i, n := range tt.sizes {
					records = append(records, sized(int64(i), n))
				}
				r.poll(0, records...)
				time.Sleep(time.Second)
				var got []int
				for _, q := range r.inFlight(len(tt.want)) {
					got = append(got, q.batch.Len())
					if q.batch.Len() > 1 && q.batch.Size() > limit {
						t.Errorf("a request of %d messages has %d bytes, the limit is %d", q.batch.Len(), q.batch.Size(), limit)
					}
					q.ack()
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("batches of %v messages, want %v", got, tt.want)
				}
				r.wantMark(0, int64(len(tt.sizes)))
			})
		})
	}
}

func TestLaneKeepsKInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sizes := testSizes()
		sizes.InFlight = 3
		r := newRig(t, OrderingNone, sizes, 0)
		r.poll(0, polled(0, 7000)...)
		time.Sleep(10 * time.Second)
		for sent := 3; sent <= 7; sent++ {
			open := r.inFlight(3)
			if first := open[2].batch.Spans[0].First; first != int64(sent-1)*1000 {
				t.Errorf("request %d begins at %d: slabs go in the order in which they were sealed", sent, first)
			}
			open[1].ack() // not the oldest: nothing can be marked yet
		}
		r.wantMark(0, 0)
		for _, q := range r.inFlight(2) {
			q.ack()
		}
		r.wantMark(0, 7000)
	})
}

// TestLaneSendsPartialSlabs is design.md 4, step 3: a partial slab is sent when
// nothing is in flight and the linger has passed, or when its oldest record has
// waited 1 s and fewer than K are in flight.
func TestLaneSendsPartialSlabs(t *testing.T) {
	const linger = 100 * time.Millisecond
	tests := []struct {
		name     string
		linger   time.Duration
		before   int           // requests in flight when the partial slab begins; K is 2
		landing  time.Duration // when the first of them lands; 0: never
		sentWhen time.Duration
	}{
		{"nothing in flight: after the linger", linger, 0, 0, linger},
		{"nothing in flight, no linger: at once", 0, 0, 0, 0},
		{"one in flight: after 1 s", linger, 1, 0, time.Second},
		{"no linger but one in flight: after 1 s", 0, 1, 0, time.Second},
		{"the one in flight lands within the linger: after the linger", linger, 1, linger / 2, linger},
		{"the one in flight lands after the linger: then", linger, 1, 3 * linger, 3 * linger},
		{"K in flight, one lands within 1 s: after 1 s", linger, 2, 500 * time.Millisecond, time.Second},
		{"K in flight, one lands after 1 s: then", linger, 2, 1700 * time.Millisecond, 1700 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				sizes := testSizes()
				sizes.Linger = tt.linger
				r := newRig(t, OrderingNone, sizes, 0)
				next := int64(tt.before) * 1000
				r.poll(0, polled(0, next)...)
				before := r.inFlight(tt.before)
				if tt.landing > 0 {
					time.AfterFunc(tt.landing, before[0].ack)
				}
				began := time.Now()
				r.poll(0, polled(next, next+1)...)
				if tt.sentWhen > 0 {
					time.Sleep(min(tt.sentWhen, 40*time.Millisecond))
					// A younger record does not move the time of the oldest.
					r.poll(0, polled(next+1, next+2)...)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				all := r.pub.requests()
				if len(all) != tt.before+1 {
					t.Fatalf("%d requests, want %d", len(all), tt.before+1)
				}
				if sent := all[tt.before].at.Sub(began); sent != tt.sentWhen {
					t.Errorf("sent after %v, want %v", sent, tt.sentWhen)
				}
			})
		})
	}
}

func TestLaneOrderedHasOneInFlightForEachPartition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sizes := testSizes()
		sizes.InFlight = 16
		r := newRig(t, OrderingPartition, sizes, 0, 1, 2)
		r.pub.script = func(q *request) time.Duration {
			return time.Duration(1+q.batch.Spans[0].First%7) * 30 * time.Millisecond
		}
		for i := range int64(20) {
			for p := range int32(3) {
				r.poll(p, polled(i*700, (i+1)*700)...)
			}
		}
		// No two requests of a partition overlap, and its records come in order.
		time.Sleep(time.Minute)
		synctest.Wait()
		next, busy := map[int32]int64{}, map[int32]time.Time{}
		for _, q := range r.pub.requests() {
			if parts := partitionsOf(q); len(parts) != 1 {
				t.Fatalf("an ordered batch covers partitions %v", parts)
			}
			p := q.records[0].partition
			if q.at.Before(busy[p]) {
				t.Errorf("partition %d: a request was sent at %v while the one before was in flight until %v", p, q.at, busy[p])
			}
			busy[p] = q.at.Add(r.pub.script(q))
			for _, rec := range q.records {
				if rec.offset != next[p] || rec.partition != p {
					t.Fatalf("partition %d: record %d came, want %d", p, rec.offset, next[p])
				}
				next[p]++
				if want := "orders/" + string('0'+p); rec.ordering != want {
					t.Fatalf("ordering key %q, want %q", rec.ordering, want)
				}
			}
		}
		for p := range int32(3) {
			r.wantMark(p, 14000)
		}
	})
}

func TestLaneOrderedPartitionThatStallsDoesNotStopAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingPartition, testSizes(), 0, 1)
		r.pub.script = func(q *request) time.Duration {
			if q.records[0].partition == 0 {
				return -1
			}
			return time.Millisecond
		}
		for i := range int64(5) {
			r.poll(0, polled(i*1000, (i+1)*1000)...)
			r.poll(1, polled(i*1000, (i+1)*1000)...)
		}
		time.Sleep(5 * time.Second)
		r.wantMark(0, 0)
		r.wantMark(1, 5000)
		r.inFlight(1)[0].ack()
	})
}

func TestLaneMixesPartitionsInOneSlab(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0, 1)
		r.poll(0, polled(0, 3)...)
		r.poll(1, polled(0, 2)...)
		r.poll(0, polled(3, 5)...)
		time.Sleep(20 * time.Millisecond)
		q := r.inFlight(1)[0]
		want := []message.Span{
			{Partition: 0, First: 0, Last: 4, Next: 5, LeaderEpoch: 5, Records: 5},
			{Partition: 1, First: 0, Last: 1, Next: 2, LeaderEpoch: 5, Records: 2},
		}
		if !slices.Equal(q.batch.Spans, want) {
			t.Errorf("spans %+v, want %+v", q.batch.Spans, want)
		}
		if q.batch.Len() != 7 || q.batch.Route != "orders" {
			t.Errorf("%d messages of route %q", q.batch.Len(), q.batch.Route)
		}
		q.ack()
		r.wantMark(0, 5)
		r.wantMark(1, 2)
		if got := r.marks[0][0]; got != (kgo.EpochOffset{Epoch: 5, Offset: 5}) {
			t.Errorf("marked %+v: a mark carries the leader epoch", got)
		}
	})
}

func TestLaneMarksNothingForABatchThatFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		r.poll(0, polled(0, 2000)...)
		open := r.inFlight(2)
		open[0].answer <- errors.New("gave up")
		open[1].ack()
		r.wantMark(0, 0)
		if got := r.lane.stats.settled.Load(); got != 1000 {
			t.Errorf("%d records count as settled, want 1000", got)
		}
	})
}

func TestLaneMarksOnlyTheAcknowledgedPrefix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sizes := testSizes()
		sizes.InFlight = 4
		r := newRig(t, OrderingNone, sizes, 0)
		r.poll(0, polled(0, 4000)...)
		open := r.inFlight(4)
		for _, step := range []struct {
			ack  int
			want int64
		}{{2, 0}, {0, 1000}, {3, 1000}, {1, 4000}} {
			open[step.ack].ack()
			r.wantMark(0, step.want)
		}
	})
}

func TestLaneSnapshotNumbers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0, 1)
		began := time.Now()
		r.poll(0, polled(0, 1500)...)
		open := r.inFlight(1)
		s := &r.lane.stats
		if got := time.Unix(0, s.oldest.Load()); !got.Equal(began) {
			t.Errorf("the oldest open record is of %v, want %v", got, began)
		}
		if s.partitions.Load() != 2 || s.polled.Load() != 1500 || s.inFlight.Load() != 1 || s.settled.Load() != 0 {
			t.Errorf("partitions %d, polled %d, in flight %d, settled %d", s.partitions.Load(), s.polled.Load(), s.inFlight.Load(), s.settled.Load())
		}
		open[0].ack()
		time.Sleep(20 * time.Millisecond)
		r.inFlight(1)[0].ack()
		r.wantMark(0, 1500)
		if s.oldest.Load() != 0 || s.settled.Load() != 1500 || s.inFlight.Load() != 0 || s.batches.Load() != 2 {
			t.Errorf("after all: oldest %d, settled %d, in flight %d, batches %d", s.oldest.Load(), s.settled.Load(), s.inFlight.Load(), s.batches.Load())
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if age := time.Since(time.Unix(0, s.stamp.Load())); age > 5*time.Second {
			t.Errorf("an idle lane stamped %v ago, want at most 5 s", age)
		}
	})
}
