//go:build integration && unix

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// arrivals remembers what arrived, by key, whatever topic or log it was in.
type arrivals struct {
	mu    sync.Mutex // guards what follows
	byKey map[string]arrival
	worst time.Duration // of the steady topic, from Kafka's acknowledgement on
}

type arrival struct {
	id    message.ID
	gap   string
	times int
}

func (a *arrivals) note(_ string, m *fakepubsub.Message) {
	key := string(m.Key())
	id, err := message.ParseID(key)
	if err != nil {
		return // the truth has said so
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.byKey[key]
	a.byKey[key] = arrival{id, string(m.Attribute(message.AttrGap)), was.times + 1}
	if at, err := time.Parse(time.RFC3339Nano, string(m.Data)); err == nil && was.times == 0 {
		a.worst = max(a.worst, time.Since(at))
	}
}

// of returns the arrivals of a topic.
func (a *arrivals) of(topic string) (of []arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range a.byKey {
		if v.id.Topic == topic {
			of = append(of, v)
		}
	}
	return of
}

// takeWorst returns the worst latency since it was taken last.
func (a *arrivals) takeWorst() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	worst := a.worst.Round(time.Millisecond)
	a.worst = 0
	return worst
}

// life is a cluster with topics to which something happens, and one to which
// nothing does.
type life struct {
	*scene
	arrivals *arrivals
	steady   string
	topic    func(string) string
}

func newLife(t *testing.T, k *kafka, things ...string) *life {
	t.Helper()
	l := &life{scene: newScene(t, k, 1), arrivals: &arrivals{byKey: map[string]arrival{}}}
	l.steady = l.topics[0]
	l.topic = func(thing string) string { return l.group + "-" + thing }
	for _, thing := range things {
		l.settings["BRIDGE_TOPICS"] += "," + l.topic(thing)
	}
	l.toFake(fakepubsub.OnStored(l.arrivals.note))
	for _, thing := range things {
		l.createDestination(l.destination(l.topic(thing)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			l.client.ProduceSync(ctx, &kgo.Record{Topic: l.steady, Value: []byte(time.Now().Format(time.RFC3339Nano))})
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return l
}

func (l *life) create(thing string, parts int32, configs map[string]string) {
	l.t.Helper()
	with := map[string]*string{}
	for k, v := range configs {
		with[k] = &v
	}
	if _, err := l.admin.CreateTopic(l.t.Context(), parts, 1, with, l.topic(thing)); err != nil {
		l.t.Fatalf("creating %s: %v", thing, err)
	}
}

// write writes n records to partition 0, with key i modulo keys.
func (l *life) write(thing string, n, keys int) {
	l.t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{
			Topic: l.topic(thing), Key: fmt.Append(nil, i%keys), Value: fmt.Append(nil, i),
		})
	}
	if err := l.client.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
		l.t.Fatalf("writing to %s: %v", thing, err)
	}
}

func (l *life) awaitArrived(thing string, n int) {
	l.t.Helper()
	eventually(l.t, 90*time.Second, fmt.Sprintf("%d records of %s to arrive", n, thing), func() bool { return len(l.arrivals.of(l.topic(thing))) >= n })
	if got := len(l.arrivals.of(l.topic(thing))); got != n {
		l.t.Errorf("%s: %d records arrived, want %d", thing, got, n)
	}
}

// awaitCommit waits until the group has committed next for partition 0.
func (l *life) awaitCommit(thing string, next int64) {
	l.t.Helper()
	eventually(l.t, 90*time.Second, fmt.Sprintf("%s to be committed to %d", thing, next), func() bool {
		commits, err := l.commits(l.group)
		return err == nil && commits[partition{l.topic(thing), 0}] == next
	})
}

// awaitEvent waits for the one event of a kind about a topic.
func (l *life) awaitEvent(b *bridge, kind fault.Kind, thing string) (event admin.Entry) {
	l.t.Helper()
	eventually(l.t, 90*time.Second, fmt.Sprintf("%s of %s to be told", kind, thing), func() bool {
		var s struct {
			Events []admin.Entry `json:"events"`
		}
		_, body := b.get("/status.json")
		if json.Unmarshal(body, &s) != nil {
			return false
		}
		s.Events = slices.DeleteFunc(s.Events, func(e admin.Entry) bool { return e.Kind != kind || e.Topic != l.topic(thing) })
		if len(s.Events) > 1 {
			l.t.Fatalf("%s of %s was told %d times: %+v", kind, thing, len(s.Events), s.Events)
		}
		if len(s.Events) == 1 {
			event = s.Events[0]
		}
		return len(s.Events) == 1
	})
	l.t.Logf("SUMMARY kafka %s, %s: %s [%d, %d): %s", l.k.version, thing, kind, event.First, event.Next, event.Reason)
	return event
}

func (l *life) wantRange(b *bridge, kind fault.Kind, thing string, first, next int64) {
	l.t.Helper()
	if e := l.awaitEvent(b, kind, thing); e.First != first || e.Next != next {
		l.t.Errorf("%s of %s was told for [%d, %d), want [%d, %d)", kind, thing, e.First, e.Next, first, next)
	}
}

// recreate deletes a topic and creates it again.
func (l *life) recreate(thing string) {
	l.t.Helper()
	if _, err := l.admin.DeleteTopics(l.t.Context(), l.topic(thing)); err != nil {
		l.t.Fatal(err)
	}
	l.client.PurgeTopicsFromProducing(l.topic(thing))
	eventually(l.t, 30*time.Second, "the topic to be gone", func() bool {
		_, err := l.admin.CreateTopic(l.t.Context(), 1, 1, nil, l.topic(thing))
		return err == nil
	})
}

// retain sets the retention of a topic, in milliseconds.
func (l *life) retain(ms string) {
	l.t.Helper()
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &ms}}
	if _, err := l.admin.AlterTopicConfigs(l.t.Context(), set, l.topic("retained")); err != nil {
		l.t.Fatal(err)
	}
}

// bounds returns the first offset of partition 0 and the one to be written next.
func (l *life) bounds(thing string) (start, end int64) {
	l.t.Helper()
	starts, err := l.admin.ListStartOffsets(l.t.Context(), l.topic(thing))
	if err != nil {
		l.t.Fatal(err)
	}
	ends, err := l.admin.ListEndOffsets(l.t.Context(), l.topic(thing))
	if err != nil {
		l.t.Fatal(err)
	}
	first, _ := starts.Lookup(l.topic(thing), 0)
	last, _ := ends.Lookup(l.topic(thing), 0)
	return first.Offset, last.Offset
}
