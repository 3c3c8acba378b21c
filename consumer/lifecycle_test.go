//go:build synctests

package consumer

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// forget makes the world expect another topic under a name.
func (w *world) forget(topic string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range []map[place]bool{w.visible, w.acked} {
		for p := range m {
			if p.topic == topic {
				delete(m, p)
			}
		}
	}
	for _, m := range []map[place]int64{w.committed, w.skipFrom, w.passed} {
		for p := range m {
			if p.topic == topic {
				delete(m, p)
			}
		}
	}
	for p := range w.keys {
		if p.topic == topic {
			delete(w.keys, p)
		}
	}
}

// recreate deletes a topic and creates it again.
func (w *world) recreate(topic string) {
	w.t.Helper()
	if err := w.kafka.DeleteTopic(topic); err != nil {
		w.t.Fatal(err)
	}
	w.forget(topic)
	if err := w.kafka.Create(topic, 3, nil); err != nil {
		w.t.Fatal(err)
	}
}

// admin returns an operator's client.
func (w *world) admin() *kadm.Client {
	w.t.Helper()
	cl, err := w.kafka.Client()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// setCommit commits as an operator does, while the group has no members.
func (w *world) setCommit(topic string, next int64, epoch int32, metadata string) {
	w.t.Helper()
	var at kadm.Offsets
	for p := range int32(3) {
		at.Add(kadm.Offset{Topic: topic, Partition: p, At: next, LeaderEpoch: epoch, Metadata: metadata})
	}
	if err := w.admin().CommitAllOffsets(w.t.Context(), testGroup, at); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range int32(3) {
		w.committed[place{topic: topic, partition: p}] = next
		w.rewound[place{topic: topic, partition: p}] = true
	}
}

// commitOf returns what the group has committed for a partition.
func (w *world) commitOf(topic string, p int32) kadm.OffsetResponse {
	w.t.Helper()
	all, err := w.admin().FetchOffsets(w.t.Context(), testGroup)
	if err != nil && causeOf(err) != Missing {
		w.t.Fatal(err)
	}
	at, ok := all.Lookup(topic, p)
	if !ok {
		at.At = -1
	}
	return at
}

// of returns the events of a kind, by partition.
func (m *member) of(kind fault.Kind) []fault.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	var of []fault.Event
	for _, e := range m.events {
		if e.Kind == kind {
			of = append(of, e)
		}
	}
	slices.SortStableFunc(of, func(a, b fault.Event) int { return int(a.Partition - b.Partition) })
	return of
}

// wantRanges checks that a kind was told once for each partition of orders,
// with this range.
func (m *member) wantRanges(kind fault.Kind, first, next int64) {
	m.w.t.Helper()
	got := m.of(kind)
	for i, e := range got {
		if e.Topic != "orders" || e.Partition != int32(i) || e.First != first || e.Next != next {
			m.w.t.Errorf("%s: %+v, want [%d, %d) of orders/%d", kind, e, first, next, i)
		}
	}
	if len(got) != 3 {
		m.w.t.Errorf("%s was told %d times, want once for each partition", kind, len(got))
	}
}

// others checks that another route goes on.
func (w *world) others() {
	w.t.Helper()
	w.produce("payments", 50, 10)
	w.within(5*time.Second, "the other route goes on", w.allCommitted("payments"))
}

func TestTopicRecreatedWhileRunning(t *testing.T) {
	for _, n := range []int{20, 500} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, 3, "orders", "payments")
			w.produce("orders", 200, 10)
			m := w.join(memberSizes(), OrderingNone, spread(300*time.Millisecond), "orders", "payments")
			w.within(time.Minute, "the first one is read", w.allCommitted("orders"))
			old := w.kafka.TopicID("orders")
			w.recreate("orders")
			w.produce("orders", n, 10)
			w.others()
			w.within(time.Minute, "the second one is read", w.allCommitted("orders"))
			w.others()
			if got := m.of(fault.TopicRecreated); len(got) != 1 || !strings.Contains(got[0].Reason, topicIDText(w.kafka.TopicID("orders"))) {
				t.Errorf("told %+v", got)
			}
			w.mu.Lock()
			for p := range w.visible {
				if !w.acked[p] || !strings.Contains(w.keys[p], "/"+topicIDText(w.kafka.TopicID(p.topic))+"/") {
					t.Fatalf("%v: acknowledged %v under key %s", p, w.acked[p], w.keys[p])
				}
			}
			w.mu.Unlock()
			for _, q := range m.pub.requests() {
				for _, r := range q.records {
					if r.gap > 0 {
						t.Fatalf("record %s has gap %d", r.key, r.gap)
					}
				}
			}
			if at := w.commitOf("orders", 0); stamped(at.Metadata) != topicID(w.kafka.TopicID("orders")) || old == w.kafka.TopicID("orders") {
				t.Errorf("the commit says %q", at.Metadata)
			}
		})
	}
}

// What a route has in hand of a topic that is gone is still published: nobody
// can read it again. Its acknowledgement moves nothing.
func TestTopicRecreatedWhileTheDestinationIsDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("orders", 200, 10)
		m := w.join(memberSizes(), OrderingPartition, func(q *request) time.Duration {
			if q.batch.Route == "orders" {
				q.batch.SetStalled(true)
				return -1
			}
			return 0
		}, "orders", "payments")
		w.within(time.Minute, "batches wait", func() bool { return len(m.pub.open()) == 3 })
		waiting := m.pub.open()
		w.recreate("orders")
		w.produce("orders", 100, 10)
		w.within(time.Minute, "the second one is read", func() bool { return len(m.pub.open()) == 6 })
		for _, q := range waiting {
			if q.cancelled() {
				t.Error("a batch of the first one was cancelled")
			}
			q.answer <- nil
		}
		time.Sleep(5 * time.Second)
		for p := range int32(3) {
			if at := w.commitOf("orders", p); at.At != 0 {
				t.Errorf("orders/%d is committed to %d by acknowledgements of the first one", p, at.At)
			}
		}
		w.others()
	})
}

// Groups commit by name, so an old commit can survive its topic.
func TestTopicRecreatedWhileStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("orders", 100, 10)
		m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "the first one is read", w.allCommitted("orders"))
		m.stop()
		old := w.commitOf("orders", 0)
		w.recreate("orders")
		w.produce("orders", 300, 10)
		w.setCommit("orders", old.At, old.LeaderEpoch, old.Metadata)
		m = w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "the second one is read from its beginning", func() bool { return w.countAcked() == 900 })
		w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders"))
		if got := m.of(fault.TopicRecreated); len(got) != 1 {
			t.Errorf("told %+v", got)
		}
		if got := append(m.of(fault.ColdStart), m.of(fault.Loss)...); len(got) != 0 {
			t.Errorf("told %+v", got)
		}
		w.others()
	})
}

func TestTopicDeletedIsMissingUntilItIsThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("orders", 100, 10)
		m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "it is read", w.allCommitted("orders"))
		if err := w.kafka.DeleteTopic("orders"); err != nil {
			t.Fatal(err)
		}
		w.forget("orders")
		w.within(30*time.Second, "it is named", func() bool { return m.Snapshot().Routes[0].Trouble.Reason != "" })
		time.Sleep(time.Minute)
		asked := w.kafka.Fault(kfake.Fault{Observe: true, Count: -1})
		time.Sleep(10 * time.Minute)
		if n := asked.Hits(); n > 10*60*5 {
			t.Errorf("%d requests in ten minutes with a topic that is missing", n)
		}
		w.others()
		if s := m.Snapshot(); !s.Joined || s.Trouble.Reason != "" || s.Routes[0].Trouble.Reason == "" || s.Routes[1].Trouble.Reason != "" {
			t.Errorf("troubles: %+v", s)
		}
		if err := w.kafka.Create("orders", 3, nil); err != nil {
			t.Fatal(err)
		}
		w.produce("orders", 50, 10)
		w.within(70*time.Second, "it is read when it is there", w.allCommitted("orders"))
		if got := m.of(fault.TopicMissing); len(got) != 1 {
			t.Errorf("told %+v", got)
		}
	})
}

func TestPartitionsAdded(t *testing.T) {
	for _, running := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, 1, "orders", "payments")
			w.produce("orders", 100, 10)
			m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
			w.within(time.Minute, "it is read", w.allCommitted("orders"))
			if !running {
				m.stop()
			}
			if _, err := w.admin().CreatePartitions(t.Context(), 2, "orders"); err != nil {
				t.Fatal(err)
			}
			var records []*kgo.Record
			for i := range 40 {
				records = append(records, &kgo.Record{Topic: "orders", Partition: 3 + int32(i%2), Value: []byte("v")})
			}
			p, err := w.kafka.Producer()
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.Produce(t.Context(), records...); err != nil {
				t.Fatal(err)
			}
			w.see(records)
			if !running {
				m = w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
			}
			w.within(70*time.Second, "the new ones are read from their beginning", func() bool { return w.countAcked() == 340 })
			if got := m.of(fault.PartitionsAdded); len(got) != 2 || got[0].Partition != 3 || got[1].Partition != 4 {
				t.Errorf("told %+v", got)
			}
			w.others()
			m.stop()
			m = w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
			w.others()
			if got := m.of(fault.PartitionsAdded); len(got) != 0 {
				t.Errorf("told again: %+v", got)
			}
		})
	}
}

func TestStrangersInTheGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments", "theirs")
		m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		cl, err := w.kafka.Client(kgo.ClientID("reporting"), kgo.ConsumerGroup(testGroup), kgo.ConsumeTopics("theirs"), kgo.Balancers(kgo.CooperativeStickyBalancer()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		w.within(30*time.Second, "the stranger is named", func() bool { return strings.Contains(m.Snapshot().Trouble.Reason, "reporting") })
		time.Sleep(5 * time.Minute)
		w.others()
		if got := m.of(fault.ForeignMember); len(got) != 1 || !strings.Contains(got[0].Reason, "reporting") {
			t.Errorf("told %+v", got)
		}
		cl.Close()
		w.within(time.Minute, "it is gone", func() bool { return m.Snapshot().Trouble.Reason == "" })
	})
}

func TestMembersWithoutPartitionsSaySo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		var members []*member
		for range 4 {
			members = append(members, w.join(memberSizes(), OrderingNone, spread(0), "orders"))
		}
		time.Sleep(5 * time.Minute)
		told := 0
		for _, m := range members {
			told += len(m.of(fault.ZeroAssignment))
		}
		if told != 1 {
			t.Errorf("told %d times with four members for three partitions", told)
		}
	})
}

func TestHangingTransactionIsTheReasonOfLag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("orders", 100, 10)
		m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "it is read", w.allCommitted("orders"))
		writer, err := w.kafka.Client(kgo.TransactionalID("writer"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(10*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := writer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("open")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.produce("orders", 20, 10)
		reason := func() (reason string) {
			for _, r := range m.Lag().Routes {
				reason += r.Reason
			}
			return reason
		}
		w.within(2*time.Minute, "it is named", func() bool { return strings.Contains(reason(), "offset 100") })
		time.Sleep(time.Minute)
		if got := m.of(fault.PartitionBlocked); len(got) != 1 || got[0].First != 100 || got[0].Next != 121 || got[0].Partition != 0 {
			t.Errorf("told %+v", got)
		}
		if s := m.Snapshot().Routes[0]; s.Trouble.Reason != "" {
			t.Errorf("the route is held: %+v", s)
		}
		w.others()
		if err := writer.EndTransaction(context.Background(), kgo.TryAbort); err != nil { //nolint:forbidigo // the test's own may have ended
			t.Fatal(err)
		}
		w.within(time.Minute, "the rest is read", w.allCommitted("orders"))
		w.within(time.Minute, "the reason is gone", func() bool { return reason() == "" })
	})
}
