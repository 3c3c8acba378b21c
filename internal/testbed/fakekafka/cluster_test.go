package fakekafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched records what an observer is told.
type watched struct {
	mu             sync.Mutex
	sent, accepted []fakekafka.Commit
	assigned       []fakekafka.Assignment
}

func (w *watched) CommitSent(c fakekafka.Commit) { w.add(func() { w.sent = append(w.sent, c) }) }
func (w *watched) CommitAccepted(c fakekafka.Commit) {
	w.add(func() { w.accepted = append(w.accepted, c) })
}

func (w *watched) Assigned(a fakekafka.Assignment) {
	w.add(func() { w.assigned = append(w.assigned, a) })
}
func (w *watched) add(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }

func start(t *testing.T, o fakekafka.Options) *fakekafka.Cluster {
	t.Helper()
	c, err := fakekafka.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func client(t *testing.T, c *fakekafka.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := c.Client(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(t *testing.T, c *fakekafka.Cluster, rs ...*kgo.Record) {
	t.Helper()
	p, err := c.Producer()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Produce(t.Context(), rs...); err != nil {
		t.Fatal(err)
	}
}

func records(topic string, partition int32, n int) []*kgo.Record {
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, "v%d", i)}
	}
	return rs
}

func TestObserverSeesCommits(t *testing.T) {
	c := start(t, fakekafka.Options{Brokers: 3})
	if err := c.Create("orders", 3, nil); err != nil {
		t.Fatal(err)
	}
	var w watched
	c.Observe(&w)
	produce(t, c, records("orders", 2, 10)...)
	cl := client(t, c, kgo.ClientID("bridge"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []*kgo.Record
	for len(got) < 10 {
		fs := cl.PollFetches(t.Context())
		if err := fs.Err0(); err != nil {
			t.Fatal(err)
		}
		got = append(got, fs.Records()...)
	}

	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration})
	if err := cl.CommitRecords(t.Context(), got[4]); err == nil {
		t.Fatal("faulted commit was accepted")
	}
	if err := cl.CommitRecords(t.Context(), got[9]); err != nil {
		t.Fatal(err)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sent) != 2 || w.sent[0].Next != 5 || w.sent[1].Next != 10 {
		t.Errorf("sent %+v, want next 5 and 10", w.sent)
	}
	member, generation := cl.GroupMetadata()
	want := fakekafka.Commit{
		Group: "g", Member: member, ClientID: "bridge", Generation: generation,
		Topic: "orders", TopicID: c.TopicID("orders"), Partition: 2, Next: 10,
	}
	if len(w.accepted) != 1 || w.accepted[0] != want {
		t.Errorf("accepted %+v, want only %+v", w.accepted, want)
	}
	if n := len(w.assigned); n == 0 || w.assigned[n-1].Member != member || len(w.assigned[n-1].Topics["orders"]) != 3 {
		t.Errorf("assigned %+v, want all three partitions to %s", w.assigned, member)
	}
}

func TestTransactionOutcome(t *testing.T) {
	c := start(t, fakekafka.Options{})
	if err := c.Create("ledger", 1, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	aborted, committed := records("ledger", 0, 2), records("ledger", 0, 2)
	if err := c.Transaction(ctx, "a", false, aborted...); err != nil {
		t.Fatal(err)
	}
	if err := c.Transaction(ctx, "b", true, committed...); err != nil {
		t.Fatal(err)
	}
	cl := client(t, c, kgo.ConsumeTopics("ledger"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []int64
	for len(got) < 2 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { got = append(got, r.Offset) })
	}
	if want := []int64{committed[0].Offset, committed[1].Offset}; !slices.Equal(got, want) {
		t.Errorf("read offsets %v, want those committed %v", got, want)
	}
}

func TestLargeRecord(t *testing.T) {
	c := start(t, fakekafka.Options{})
	if err := c.Create("big", 1, map[string]string{"max.message.bytes": "33554432"}); err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: "big", Value: make([]byte, 11_000_000)}
	produce(t, c, r)
	if hw := c.PartitionInfo("big", 0).HighWatermark; hw != 1 {
		t.Errorf("high watermark %d, want 1", hw)
	}
}
