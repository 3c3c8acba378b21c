package history_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	dest = "projects/p/topics/pay-events"
	dead = "projects/p/topics/dead"
)

var (
	id    = [16]byte{1, 2, 3}
	place = history.Partition{Topic: "payments", ID: id, Partition: 2}
)

// scene is a history with words to tell a story in.
type scene struct{ *history.History }

func newScene() scene {
	return scene{history.New(history.Options{
		Seed: 7, Cluster: "msk", Group: "g", DeadLetters: []string{dead},
		Routes: map[string]string{dest: "payments", "projects/p/topics/orders": "orders"},
	})}
}

// rec is the record at offset o, without headers but the one.
func rec(o int64) *kgo.Record {
	return &kgo.Record{
		Topic: "payments", Partition: 2, Offset: o,
		Key: fmt.Appendf(nil, "k%d", o%2), Value: fmt.Appendf(nil, "v%d", o),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}},
	}
}

// msg maps a record to a message: the design's table, as simply as can be. The
// edits change attributes, an empty value deleting one, or data under "data".
func msg(r *kgo.Record, edits ...string) fakepubsub.Message {
	a := map[string]string{
		"idempotency_key": fmt.Sprintf("v1/msk/%s/%s/%d/%d/%d", r.Topic,
			base64.RawURLEncoding.EncodeToString(id[:]), r.Partition, 5, r.Offset),
		"kafka_topic": r.Topic, "kafka_partition": fmt.Sprint(r.Partition), "kafka_offset": fmt.Sprint(r.Offset),
	}
	if r.Key != nil && utf8.Valid(r.Key) {
		a["kafka_key"] = string(r.Key)
	} else if r.Key != nil {
		a["kafka_key"], a["kafka_key_encoding"] = base64.StdEncoding.EncodeToString(r.Key), "base64"
	}
	if r.Value == nil {
		a["kafka_tombstone"] = "true"
	}
	for _, h := range r.Headers {
		a["kafka_header_"+h.Key] = string(h.Value)
	}
	m := fakepubsub.Message{Data: r.Value}
	for i := 0; i < len(edits); i += 2 {
		switch name, value := edits[i], edits[i+1]; {
		case name == "data":
			m.Data = []byte(value)
		case name == "order":
			m.OrderingKey = []byte(value)
		case value == "":
			delete(a, name)
		default:
			a[name] = value
		}
	}
	for n, v := range a {
		m.Attributes = append(m.Attributes, fakepubsub.Attribute{Name: []byte(n), Value: []byte(v)})
	}
	return m
}

func (s scene) produce(n int64) {
	for o := range n {
		s.Produced(id, rec(o))
	}
}

// store stores without an answer, deliver with a good one.
func (s scene) store(topic string, ms ...fakepubsub.Message) { s.Stored(topic, ms) }

func (s scene) deliver(topic string, ms ...fakepubsub.Message) {
	s.Stored(topic, ms)
	s.Acknowledged(topic, ms)
}

func (s scene) pass(first, next int64) {
	for o := first; o < next; o++ {
		s.deliver(dest, msg(rec(o)))
	}
}

func commit(next int64) fakekafka.Commit {
	return fakekafka.Commit{Group: "g", Member: "a", Generation: 1, Topic: "payments", TopicID: id, Partition: 2, Next: next}
}

func (s scene) commit(c fakekafka.Commit) { s.CommitSent(c); s.CommitAccepted(c) }

func (s scene) assign(generation int32, member string, partitions ...int32) {
	s.Assigned(fakekafka.Assignment{
		Group: "g", Member: member, Generation: generation, Topics: map[string][]int32{"payments": partitions},
	})
}

// edited returns the commit with another member and generation.
func edited(c fakekafka.Commit, member string, generation int32) fakekafka.Commit {
	c.Member, c.Generation = member, generation
	return c
}

const order = "payments/2"

func TestViolationNamesSeedEventAndPast(t *testing.T) {
	var told []history.Violation
	h := history.New(history.Options{
		Seed: 99, Cluster: "msk", Group: "g", Routes: map[string]string{dest: "payments"},
		OnViolation: func(v history.Violation) { told = append(told, v) },
	})
	s := scene{h}
	s.produce(300)
	s.commit(commit(1))
	if len(told) != 1 || told[0].Seed != 99 || told[0].Event != 301 || len(told[0].Recent) != 200 {
		t.Fatalf("told %+v", told)
	}
	if last := told[0].Recent[199]; !strings.Contains(last, "COMMIT? payments/2") {
		t.Errorf("last event %q, want the commit", last)
	}
	err := s.Check()
	for _, want := range []string{"I2 broken (seed 99, event 301)", "I1 broken", " PROD payments/2 [299,300)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error", want)
		}
	}
}

func TestSummaryAndExposure(t *testing.T) {
	s := newScene()
	s.produce(6)
	s.pass(0, 3)
	s.commit(commit(1))
	if got := s.Incident("kill", "a"); got != 2 {
		t.Errorf("%d records exposed, want the two stored and not committed", got)
	}
	s.pass(1, 2)
	s.deliver(dead, msg(rec(3)))
	s.Exempt(place, 4, 5)
	want := history.Summary{Produced: 6, Stored: 3, Parked: 1, Exempt: 1, Missing: 1, Repeats: 1, Behind: 5}
	if got := s.Summary(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s.Quiet() {
		t.Error("quiet with a record missing")
	}
}

// BenchmarkRecord is one record produced, stored and acknowledged, a thousand
// to the request.
func BenchmarkRecord(b *testing.B) {
	var s scene
	records := make([]*kgo.Record, 1000)
	ms := make([]fakepubsub.Message, len(records))
	for i := range records {
		records[i] = rec(int64(i))
		ms[i] = msg(records[i])
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%len(records) == 0 {
			s = newScene()
			for _, r := range records {
				s.Produced(id, r)
			}
			s.deliver(dest, ms...)
		}
	}
}

func sha(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}
