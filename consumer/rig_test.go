package consumer

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// rig is one running lane in a bubble, with a scripted publisher at its end and
// what it marks recorded.
type rig struct {
	t      *testing.T
	lane   *lane
	gate   *gate
	client *fakePauser
	pub    *scriptedPublisher
	stop   context.CancelFunc
	ended  chan struct{} // closed when the lane returned

	mu    sync.Mutex // guards marks
	marks map[int32][]kgo.EpochOffset
}

func testSizes() Sizes {
	return Sizes{
		Window: 64 * mib, FetchMaxBytes: 1 << 20, FetchMaxPartition: 1 << 20,
		SlabBytes: 1 << 20, InFlight: 2, Linger: 10 * time.Millisecond,
	}
}

// newRig starts a lane that has the given partitions, which begin at offset 0
// without a commit. At the end of the test nothing may be in hand.
func newRig(t *testing.T, ordering Ordering, sizes Sizes, partitions ...int32) *rig {
	t.Helper()
	return newRouteRig(t, Route{Topic: "orders", Destination: "projects/p/topics/orders", Ordering: ordering}, sizes, partitions...)
}

func newRouteRig(t *testing.T, route Route, sizes Sizes, partitions ...int32) *rig {
	t.Helper()
	r := &rig{
		t: t, client: newPauser(), pub: &scriptedPublisher{}, ended: make(chan struct{}),
		marks: map[int32][]kgo.EpochOffset{},
	}
	r.gate = newGate(sizes.Window, r.client, []Route{route})
	r.lane = newLane(route, &Options{Cluster: "test", Sizes: sizes, Events: func(fault.Event) {}}, r.pub, r.gate, new(slabPool))
	r.lane.mark = r.mark
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.ended)
		r.lane.run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-r.ended
		if in, _ := r.gate.hands(); in != 0 {
			t.Errorf("%d bytes are still in hand after all was settled, abandoned or dropped", in)
		}
		if r.client.is("orders") {
			t.Error("the route is still paused")
		}
		if open := r.pub.open(); len(open) != 0 {
			t.Errorf("%d requests are still open", len(open))
		}
	})
	r.assign(partitions...)
	return r
}

func (r *rig) mark(m map[string]map[int32]kgo.EpochOffset) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for partition, at := range m["orders"] {
		if seen := r.marks[partition]; len(seen) > 0 && at.Offset <= seen[len(seen)-1].Offset {
			r.t.Errorf("partition %d: the mark went from %d to %d", partition, seen[len(seen)-1].Offset, at.Offset)
		}
		r.marks[partition] = append(r.marks[partition], at)
	}
}

// marked returns the position marked last, 0 for none.
func (r *rig) marked(partition int32) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.marks[partition]
	if len(seen) == 0 {
		return 0
	}
	return seen[len(seen)-1].Offset
}

// do runs f on the lane and returns when it did and all that follows has come
// to rest.
func (r *rig) do(f func(*lane)) {
	r.t.Helper()
	r.lane.inbox.put(func() { f(r.lane) })
	synctest.Wait()
}

func (r *rig) assign(partitions ...int32) {
	r.t.Helper()
	r.do(func(l *lane) {
		l.assign(partitions)
		for _, n := range partitions {
			l.placed(n, -1, [16]byte{1})
		}
	})
}

// poll brings records of one partition, as the poll loop does.
func (r *rig) poll(partition int32, records ...*kgo.Record) {
	r.t.Helper()
	r.fetch(kgo.FetchPartition{Partition: partition, Records: records})
}

func (r *rig) fetch(fp kgo.FetchPartition) {
	r.t.Helper()
	var n int64
	for _, rec := range fp.Records {
		n += r.lane.route.cost(rec)
	}
	r.gate.take("orders", n)
	r.do(func(l *lane) { l.accept([16]byte{}, fp) })
}

// polled are records of the given offsets, from first up to, not including, next.
func polled(first, next int64) []*kgo.Record {
	var records []*kgo.Record
	for o := first; o < next; o++ {
		records = append(records, sized(o, 16))
	}
	return records
}

func sized(offset int64, size int) *kgo.Record {
	return &kgo.Record{Offset: offset, LeaderEpoch: 5, Value: bytes.Repeat([]byte{'v'}, size), Timestamp: time.UnixMilli(1)}
}

// inFlight waits until all has come to rest and returns the open requests.
func (r *rig) inFlight(want int) []*request {
	r.t.Helper()
	synctest.Wait()
	open := r.pub.open()
	if len(open) != want {
		r.t.Fatalf("%d requests in flight, want %d", len(open), want)
	}
	return open
}

// wantMark waits until all has come to rest and checks the position marked last.
func (r *rig) wantMark(partition int32, next int64) {
	r.t.Helper()
	synctest.Wait()
	if got := r.marked(partition); got != next {
		r.t.Errorf("partition %d is marked at %d, want %d", partition, got, next)
	}
}

// partitionsOf returns the partitions that a request covers, sorted.
func partitionsOf(q *request) []int32 {
	set := map[int32]bool{}
	for _, s := range q.batch.Spans {
		set[s.Partition] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// bubble runs f in virtual time; it ends when every goroutine has.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
