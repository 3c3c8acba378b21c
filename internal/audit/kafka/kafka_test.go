package kafka

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/audit"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

const group = "bridge"

func start(t *testing.T) (*Side, *fakekafka.Cluster, *kgo.Client) {
	t.Helper()
	k, err := fakekafka.Start(fakekafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if err := k.Create("orders", 2, map[string]string{"max.message.bytes": "20000000"}); err != nil {
		t.Fatal(err)
	}
	c, err := k.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20_000_000))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &Side{Options: consumer.Options{
		Brokers: k.Brokers(), Group: group, Cluster: "msk", SessionTimeout: 20 * time.Second,
		Sizes:  consumer.Sizes{Window: 64 << 20, FetchMaxBytes: 16 << 20, FetchMaxPartition: 16 << 20, SlabBytes: 1 << 20, InFlight: 4, Linger: time.Second},
		Routes: []consumer.Route{{Topic: "orders", Destination: "projects/p/topics/orders"}},
	}}, k, c
}

func produce(t *testing.T, c *kgo.Client, n int, at time.Time) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: "orders", Partition: 1, Value: fmt.Append(nil, i), Timestamp: at}
	}
	if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestExtents(t *testing.T) {
	s, k, c := start(t)
	now := time.Now()
	produce(t, c, 30, now.Add(-2*time.Hour))
	produce(t, c, 20, now)
	if err := k.DeleteRecords("orders", 1, 10); err != nil {
		t.Fatal(err)
	}
	id := k.TopicID("orders")
	other := [16]byte{1}
	for _, test := range []struct {
		name, stamp string
		want        int64
	}{
		{"a commit without a stamp", "", 40},
		{"of this incarnation", "topic-id:" + base64.RawURLEncoding.EncodeToString(id[:]), 40},
		{"of another", "topic-id:" + base64.RawURLEncoding.EncodeToString(other[:]), -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var at kadm.Offsets
			at.Add(kadm.Offset{Topic: "orders", Partition: 1, At: 40, LeaderEpoch: -1, Metadata: test.stamp})
			if err := kadm.NewClient(c).CommitAllOffsets(t.Context(), group, at); err != nil {
				t.Fatal(err)
			}
			got, err := s.Extents(t.Context(), "orders", now.Add(-time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			want := []audit.Extent{{Partition: 0, Committed: -1}, {Partition: 1, Start: 10, End: 50, Since: 30, Committed: test.want}}
			if got.ID != base64.RawURLEncoding.EncodeToString(id[:]) || !slices.Equal(got.Partitions, want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		})
	}
	if _, err := s.Extents(t.Context(), "payments", now); err == nil {
		t.Error("a topic without a route is asked for")
	}
}

func TestReread(t *testing.T) {
	s, k, c := start(t)
	hourAgo := time.UnixMilli(time.Now().UnixMilli()).Add(-time.Hour)
	produce(t, c, 49, time.Now())
	produce(t, c, 1, hourAgo)
	big := &kgo.Record{Topic: "orders", Partition: 1, Value: make([]byte, 10_000_001)}
	if err := c.ProduceSync(t.Context(), big).FirstErr(); err != nil {
		t.Fatal(err)
	}
	produce(t, c, 9, time.Now())
	if err := k.DeleteRecords("orders", 1, 10); err != nil {
		t.Fatal(err)
	}
	for _, stores := range []bool{false, true} {
		s.Stores = map[string]bool{"orders": stores}
		got, err := s.Reread(t.Context(), "orders", 1, audit.Range{From: 5, To: 60})
		if err != nil {
			t.Fatal(err)
		}
		records, parked := len(got.Records), len(got.Parked)
		if stores && (records != 50 || parked != 0) || !stores && (records != 49 || parked != 1 || got.Parked[0] != audit.Range{From: 50, To: 51}) {
			t.Errorf("stores %v: %d records, parked %v", stores, records, got.Parked)
		}
		seen := make(map[int64]bool)
		for _, r := range append(got.Records, got.Parked...) {
			if r.To != r.From+1 || seen[r.From] {
				t.Errorf("%+v is not one offset, or was there before", r)
			}
			seen[r.From] = true
		}
		for o := int64(10); o < 60; o++ {
			if !seen[o] {
				t.Errorf("offset %d is not seen", o)
			}
		}
		if got.Start != 10 || got.Next != 60 || !got.Oldest.Equal(hourAgo) {
			t.Errorf("start %d, next %d, oldest %v, want %v", got.Start, got.Next, got.Oldest, hourAgo)
		}
	}
	if got, err := s.Reread(t.Context(), "orders", 1, audit.Range{From: 0, To: 9}); err != nil || got.Start != 9 || len(got.Records) != 0 {
		t.Errorf("what was deleted: %+v, %v", got, err)
	}
	if got, err := s.Reread(t.Context(), "orders", 1, audit.Range{From: 50, To: 70}); err == nil {
		t.Errorf("offsets that are not there: %+v", got)
	}
}

// TestRereadEndsEarly: enough records stand for all, and it takes no drain.
func TestRereadEndsEarly(t *testing.T) {
	s, _, c := start(t)
	s.Options.Sizes.FetchMaxBytes, s.Options.Sizes.FetchMaxPartition = 16<<10, 16<<10
	for range 30 {
		produce(t, c, mostRecords/10, time.Now())
	}
	began := time.Now()
	got, err := s.Reread(t.Context(), "orders", 1, audit.Range{From: 0, To: 3 * mostRecords})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Records); n < mostRecords || got.Next >= 3*mostRecords || got.Next < mostRecords/2 || time.Since(began) > 8*time.Second {
		t.Errorf("%d records, next %d, after %v", n, got.Next, time.Since(began))
	}
}

func TestUnreachable(t *testing.T) {
	s, k, _ := start(t)
	k.Close()
	if got, err := s.Extents(t.Context(), "orders", time.Now()); err == nil {
		t.Errorf("%+v", got)
	}
}
