//go:build integration && unix

package integration

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

// TestLifecycle lets everything happen to topics that can, first beside a
// running bridge, then while none runs. Each is told once with its range, and a
// route to which nothing happens does not notice.
func TestLifecycle(t *testing.T) {
	for _, version := range []string{realkafka.Version3, realkafka.Version4} {
		t.Run(version, func(t *testing.T) {
			c, err := realkafka.Start(t.Context(), realkafka.Options{Version: version, Properties: map[string]string{
				"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000", "log.cleaner.backoff.ms": "500",
			}})
			need(t, err)
			t.Cleanup(func() {
				explain(t, c)
				_ = c.Close()
			})
			l := newLife(t, &kafka{brokers: c.Brokers(), version: c.Version(), own: c}, "recreated", "reborn", "grown", "trimmed", "retained", "set", "compacted", "transactional")
			for _, thing := range []string{"recreated", "reborn", "grown", "trimmed", "set", "transactional"} {
				l.create(thing, 1, nil)
				l.write(thing, 100, 100)
			}
			l.create("retained", 1, map[string]string{"segment.ms": "1000", "retention.ms": "86400000"})
			l.write("retained", 100, 100)
			l.create("compacted", 1, map[string]string{"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"})
			l.write("compacted", 100, 100)
			b := l.start("one")
			for _, thing := range []string{"recreated", "reborn", "grown", "trimmed", "set", "transactional", "retained", "compacted"} {
				l.awaitArrived(thing, 100)
				l.awaitCommit(thing, 100)
			}
			l.arrivals.takeWorst() // that of waiting for a bridge
			l.whileRunning(b)
			running := l.arrivals.takeWorst()
			if took := b.terminate(); took > 10*time.Second {
				t.Errorf("stopping took %v", took)
			}
			l.whileStopped()
			l.afterwards(l.start("two"))
			t.Logf("SUMMARY kafka %s: the steady route's worst latency was %v beside all of it", c.Version(), running)
			if running > 10*time.Second {
				t.Errorf("the steady route waited %v", running)
			}
		})
	}
}

func (l *life) whileRunning(b *bridge) {
	l.t.Helper()
	l.recreate("recreated")
	l.write("recreated", 150, 150)
	l.awaitEvent(b, fault.TopicRecreated, "recreated")
	l.awaitArrived("recreated", 250)
	l.awaitCommit("recreated", 150)

	if _, err := l.admin.CreatePartitions(l.t.Context(), 1, l.topic("grown")); err != nil {
		l.t.Fatal(err)
	}
	for range 10 {
		eventually(l.t, 30*time.Second, "the producer to know the new partition", func() bool {
			l.client.ForceMetadataRefresh()
			return l.client.ProduceSync(l.t.Context(), &kgo.Record{Topic: l.topic("grown"), Partition: 1, Value: []byte("new")}).FirstErr() == nil
		})
	}
	l.awaitEvent(b, fault.PartitionsAdded, "grown")
	l.awaitArrived("grown", 110)

	writer, err := kgo.NewClient(kgo.SeedBrokers(l.k.brokers...), kgo.TransactionalID(l.group), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		l.t.Fatal(err)
	}
	defer writer.Close()
	for i, commit := range []bool{true, false, true, false} {
		if err := writer.BeginTransaction(); err != nil {
			l.t.Fatal(err)
		}
		for range 10 {
			writer.Produce(l.t.Context(), &kgo.Record{Topic: l.topic("transactional"), Value: fmt.Append(nil, i)}, nil)
		}
		if err := writer.Flush(l.t.Context()); err != nil {
			l.t.Fatal(err)
		}
		if err := writer.EndTransaction(l.t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			l.t.Fatal(err)
		}
	}
	l.awaitArrived("transactional", 120)
	l.awaitCommit("transactional", 144) // 40 records and 4 markers
	for _, a := range l.arrivals.of(l.topic("transactional")) {
		if want := "12"; a.id.Offset == 122 && a.gap != want {
			l.t.Errorf("transactional: record %d has gap %q, want %q", a.id.Offset, a.gap, want)
		}
	}
	l.t.Logf("SUMMARY kafka %s, transactional: 20 aborted records were not published, the commit is behind the last marker", l.k.version)
}

func (l *life) whileStopped() {
	l.t.Helper()
	ctx := l.t.Context()
	l.recreate("reborn")
	l.write("reborn", 130, 130)

	l.write("trimmed", 100, 100)
	var to kadm.Offsets
	to.Add(kadm.Offset{Topic: l.topic("trimmed"), Partition: 0, At: 160})
	if _, err := l.admin.DeleteRecords(ctx, to); err != nil {
		l.t.Fatal(err)
	}

	l.write("retained", 50, 50)
	<-time.After(1500 * time.Millisecond) // the segment's age
	l.write("retained", 20, 20)
	l.retain("1000")
	eventually(l.t, time.Minute, "retention to delete a segment", func() bool {
		start, _ := l.bounds("retained")
		return start >= 150
	})
	l.retain("86400000")

	var set kadm.Offsets
	set.Add(kadm.Offset{Topic: l.topic("set"), Partition: 0, At: 5000, LeaderEpoch: -1})
	if err := l.admin.CommitAllOffsets(ctx, l.group, set); err != nil {
		l.t.Fatal(err)
	}

	l.write("compacted", 200, 10)
	<-time.After(1500 * time.Millisecond)
	l.write("compacted", 1, 1) // the active segment is never compacted
	eventually(l.t, time.Minute, "compaction", func() bool { return l.count("compacted", 100) < 60 })
}

// count reads a topic from an offset on.
func (l *life) count(thing string, from int64) (n int) {
	l.t.Helper()
	_, end := l.bounds(thing)
	reader, err := kgo.NewClient(kgo.SeedBrokers(l.k.brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic(thing): {0: kgo.NewOffset().At(from)}}))
	if err != nil {
		l.t.Fatal(err)
	}
	defer reader.Close()
	for {
		fetches := reader.PollFetches(l.t.Context())
		if err := fetches.Err(); err != nil {
			l.t.Fatal(err)
		}
		for r := range fetches.RecordsAll() {
			if n++; r.Offset == end-1 {
				return n
			}
		}
	}
}

func (l *life) afterwards(b *bridge) {
	l.t.Helper()
	l.wantRange(b, fault.Loss, "trimmed", 100, 160)
	l.awaitArrived("trimmed", 140)
	l.awaitCommit("trimmed", 200)

	start, _ := l.bounds("retained")
	l.wantRange(b, fault.Loss, "retained", 100, start)
	l.awaitArrived("retained", int(100+170-start))
	l.awaitCommit("retained", 170)

	l.wantRange(b, fault.Truncated, "set", 100, 5000)
	l.awaitCommit("set", 100)
	for _, a := range l.arrivals.of(l.topic("set")) {
		if a.times != 2 {
			l.t.Errorf("set: record %d arrived %d times, want to be read again", a.id.Offset, a.times)
		}
	}

	// Kafka deletes a group's commits with their topic, so it looks new.
	l.awaitArrived("reborn", 230)
	l.awaitCommit("reborn", 130)
	ids := map[string]int{}
	for _, a := range l.arrivals.of(l.topic("reborn")) {
		ids[base64.RawURLEncoding.EncodeToString(a.id.TopicID[:])]++
	}
	if len(ids) != 2 {
		l.t.Errorf("reborn: arrived under %v", ids)
	}

	left := l.count("compacted", 100)
	l.awaitArrived("compacted", 100+left)
	l.awaitCommit("compacted", 301)
	holes := int64(0)
	for _, a := range l.arrivals.of(l.topic("compacted")) {
		if a.gap != "" {
			gap, err := strconv.ParseInt(a.gap, 10, 64)
			if err != nil {
				l.t.Errorf("compacted: gap %q", a.gap)
			}
			holes += gap
		}
	}
	if want := int64(201 - left); holes != want {
		l.t.Errorf("compacted: the records tell of %d holes, want %d", holes, want)
	}
	l.t.Logf("SUMMARY kafka %s, compacted: %d of 201 records were left, the gaps sum up to %d", l.k.version, left, holes)

	told := map[string]int{}
	var s struct {
		Events []admin.Entry `json:"events"`
	}
	if _, body := b.get("/status.json"); json.Unmarshal(body, &s) == nil {
		for _, e := range s.Events {
			told[string(e.Kind)+" "+strings.TrimPrefix(e.Topic, l.group+"-")]++
		}
	}
	l.t.Logf("SUMMARY kafka %s: the second bridge told %v", l.k.version, slices.Sorted(maps.Keys(told)))
}
