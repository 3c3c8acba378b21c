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

func TestPlantedViolations(t *testing.T) {
	tests := []struct {
		name, want string
		plot       func(scene)
	}{
		{"record lost", "I1", func(s scene) { s.produce(3); s.pass(0, 2) }},
		{"stored, never acknowledged", "I1", func(s scene) { s.produce(1); s.store(dest, msg(rec(0))) }},
		{"parked, never acknowledged", "I1", func(s scene) { s.produce(1); s.store(dead, msg(rec(0))) }},
		{"commit before storing", "I2", func(s scene) { s.produce(2); s.pass(0, 1); s.commit(commit(2)) }},
		{"commit before acknowledgement", "I2", func(s scene) { s.produce(1); s.store(dest, msg(rec(0))); s.commit(commit(1)) }},
		{"commit before a record that is known later", "I2", func(s scene) { s.commit(commit(1)); s.produce(1); s.pass(0, 1) }},
		{"first copy after the commit", "I2", func(s scene) { s.commit(commit(1)); s.pass(0, 1) }},
		{"refused commit of too much", "I2", func(s scene) { s.produce(1); s.CommitSent(commit(1)) }},
		{"commit far beyond the end", "I2", func(s scene) { s.produce(1); s.pass(0, 1); s.commit(commit(1 << 40)) }},
		{"commit goes back", "I3", func(s scene) { s.produce(3); s.pass(0, 3); s.commit(commit(3)); s.commit(commit(2)) }},
		{"commit of a stranger", "I4", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			s.assign(1, "a", 0, 1)
			s.assign(1, "b", 2)
			s.commit(commit(1))
		}},
		{"commit of the owner before last", "I4", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			s.assign(1, "a", 2)
			s.assign(2, "b", 2)
			s.commit(edited(commit(1), "a", 2))
		}},
		{"two owners", "I4", func(s scene) { s.assign(1, "a", 2); s.assign(1, "b", 2) }},
		{"admin commit over a member's", "I4", func(s scene) {
			s.produce(2)
			s.pass(0, 2)
			s.commit(commit(1))
			s.commit(edited(commit(2), "", -1))
		}},
		{"message without record", "I5", func(s scene) { s.produce(1); s.pass(0, 2) }},
		{"message of a far offset", "I5", func(s scene) { s.deliver(dest, msg(rec(1<<31))) }},
		{"aborted record stored", "I5", func(s scene) { s.Aborted(id, rec(0)); s.pass(0, 1) }},
		{"stored record turns out aborted", "I5", func(s scene) { s.pass(0, 1); s.Aborted(id, rec(0)) }},
		{"record on another's destination", "I5", func(s scene) { s.produce(1); s.deliver("projects/p/topics/orders", msg(rec(0))) }},
		{"another cluster's key", "I6", func(s scene) {
			s.produce(1)
			s.deliver(dest, msg(rec(0), "idempotency_key", "v1/msk2/payments/AQIDAAAAAAAAAAAAAAAAAA/2/5/0"))
		}},
		{"no key", "I6", func(s scene) { s.deliver(dest, msg(rec(0), "idempotency_key", "")) }},
		{"second spelling of a key", "I6", func(s scene) {
			s.deliver(dest, msg(rec(0), "idempotency_key", "v1/msk/payments/AQIDAAAAAAAAAAAAAAAAAA/2/5/00"))
		}},
		{"key of another offset", "I6", func(s scene) { s.produce(2); s.deliver(dest, msg(rec(0), "kafka_offset", "1")) }},
		{"key with another epoch on the second copy", "I6", func(s scene) {
			s.produce(1)
			s.store(dest, msg(rec(0)))
			s.deliver(dest, msg(rec(0), "idempotency_key", "v1/msk/payments/AQIDAAAAAAAAAAAAAAAAAA/2/6/0"))
		}},
		{"value changed", "I7", func(s scene) { s.produce(1); s.deliver(dest, msg(rec(0), "data", "other")) }},
		{"value changed, record known later", "I7", func(s scene) { s.deliver(dest, msg(rec(0), "data", "other")); s.produce(1) }},
		{"key changed", "I7", func(s scene) { s.produce(1); s.deliver(dest, msg(rec(0), "kafka_key", "other")) }},
		{"null key made empty", "I7", func(s scene) {
			r := rec(0)
			r.Key = nil
			s.Produced(id, r)
			r.Key = []byte{}
			s.deliver(dest, msg(r))
		}},
		{"tombstone made empty", "I7", func(s scene) {
			r := rec(0)
			r.Value = nil
			s.Produced(id, r)
			s.deliver(dest, msg(r, "kafka_tombstone", ""))
		}},
		{"header lost", "I7", func(s scene) { s.produce(1); s.deliver(dest, msg(rec(0), "kafka_header_h", "")) }},
		{"header invented", "I7", func(s scene) {
			r := rec(0)
			r.Headers = nil
			s.Produced(id, r)
			s.deliver(dest, msg(r, "kafka_header_i", "x"))
		}},
		{"parked hash wrong", "I7", func(s scene) {
			s.produce(1)
			s.deliver(dead, msg(rec(0), "data", "", "mskbridge_sha256", strings.Repeat("ab", 32)))
		}},
		{"ordered record skips one", "I8", func(s scene) {
			s.produce(3)
			s.deliver(dest, msg(rec(0), "order", order))
			s.deliver(dest, msg(rec(2), "order", order))
			s.deliver(dest, msg(rec(1), "order", order))
		}},
		{"ordered record skips one that is known later", "I8", func(s scene) {
			s.deliver(dest, msg(rec(1), "order", order))
			s.produce(2)
			s.deliver(dest, msg(rec(0), "order", order))
		}},
		{"ordered by key, skips one of the key", "I8", func(s scene) {
			s.produce(3)
			s.deliver(dest, msg(rec(2), "order", "k0"))
			s.deliver(dest, msg(rec(1), "order", "k1"))
			s.deliver(dest, msg(rec(0), "order", "k0"))
		}},
		{"repeat for no reason", "I9", func(s scene) { s.produce(1); s.pass(0, 1); s.pass(0, 1) }},
		{"two repeats, one incident", "I9", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			s.Incident("kill", "a")
			s.pass(0, 1)
			s.pass(0, 1)
		}},
		{"repeat of a committed record after an incident", "I9", func(s scene) {
			s.produce(2)
			s.pass(0, 2)
			s.commit(commit(1))
			s.Incident("kill", "a")
			s.pass(0, 1)
		}},
		{"parked without report", "EVENTS", func(s scene) { s.produce(1); s.deliver(dead, msg(rec(0))) }},
		{"report without park", "EVENTS", func(s scene) { s.produce(1); s.pass(0, 1); s.ParkReported(place, 0) }},
		{"loss without report", "EVENTS", func(s scene) { s.produce(2); s.Trimmed(place, 0, 1); s.pass(1, 2) }},
		{"report without loss", "EVENTS", func(s scene) { s.produce(1); s.pass(0, 1); s.LossReported(place, 0, 1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			tt.plot(s)
			_, before := s.Violations()
			if err := s.Check(); err == nil && tt.want != "EVENTS" {
				t.Fatal("Check found nothing")
			} else if tt.want == "EVENTS" && err != nil {
				t.Fatalf("Check found %v", err)
			}
			err := s.CheckEvents()
			vs, _ := s.Violations()
			var seen []string
			for _, v := range vs {
				seen = append(seen, v.Invariant)
			}
			if len(seen) == 0 || seen[0] != tt.want {
				t.Fatalf("broken %v (%d before Check), want %s first: %v", seen, before, tt.want, err)
			}
		})
	}
}

func TestSoundStories(t *testing.T) {
	tests := []struct {
		name string
		plot func(scene)
	}{
		{"straight", func(s scene) { s.produce(5); s.pass(0, 5); s.commit(commit(3)); s.commit(commit(5)) }},
		{"stored before the producer knew", func(s scene) { s.pass(0, 2); s.commit(commit(2)); s.produce(2) }},
		{"markers passed", func(s scene) { s.produce(1); s.pass(0, 1); s.commit(commit(3)) }},
		{"aborted passed", func(s scene) { s.Aborted(id, rec(0)); s.commit(commit(1)) }},
		{"aborted passed, known later", func(s scene) { s.commit(commit(1)); s.Aborted(id, rec(0)) }},
		{"spoiled answer, sent again", func(s scene) { s.produce(1); s.store(dest, msg(rec(0))); s.store(dest, msg(rec(0))); s.pass(0, 1) }},
		{"repeat after a kill", func(s scene) {
			s.produce(2)
			s.pass(0, 2)
			s.commit(commit(1))
			s.Incident("kill", "a")
			s.pass(1, 2)
		}},
		{"refused commit sent again, lower", func(s scene) { s.produce(2); s.pass(0, 2); s.CommitSent(commit(2)); s.commit(commit(1)) }},
		{"operator's reset", func(s scene) { s.produce(2); s.pass(0, 2); s.commit(commit(2)); s.Reset(place); s.commit(commit(0)) }},
		{"cooperative revoke", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			s.assign(1, "a", 1, 2)
			s.assign(2, "a", 1)
			s.assign(2, "b")
			s.commit(edited(commit(1), "a", 2))
			s.assign(3, "b", 2)
			s.commit(edited(commit(1), "b", 3))
		}},
		{"start offset by nobody", func(s scene) { s.Exempt(place, 0, 2); s.commit(edited(commit(2), "", -1)) }},
		{"another group", func(s scene) { s.produce(1); s.pass(0, 1); c := commit(1); c.Group = "other"; s.commit(c) }},
		{"parked by hash", func(s scene) {
			s.produce(1)
			s.deliver(dead, msg(rec(0), "data", "", "mskbridge_sha256", sha("v0")))
			s.ParkReported(place, 0)
			s.commit(commit(1))
		}},
		{"order, repeats jump back", func(s scene) {
			s.produce(4)
			for _, o := range []int64{0, 1, 2} {
				s.store(dest, msg(rec(o), "order", order))
			}
			for o := range int64(4) {
				s.deliver(dest, msg(rec(o), "order", order))
			}
		}},
		{"order by key, keys apart", func(s scene) {
			s.produce(3)
			s.deliver(dest, msg(rec(1), "order", "k1"))
			s.deliver(dest, msg(rec(0), "order", "k0"))
			s.deliver(dest, msg(rec(2), "order", "k0"))
		}},
		{"binary key, odd headers", func(s scene) {
			r := rec(0)
			r.Key = []byte{0xff, 0}
			r.Headers = []kgo.RecordHeader{{Key: "r", Value: []byte("1")}, {Key: "b", Value: []byte{0xfe}}, {Key: "n"}, {Key: "x\xff", Value: []byte("y")}}
			s.Produced(id, r)
			r.Headers = nil
			s.deliver(dest, msg(r, "kafka_headers_json",
				`[{"name":"r","value":"1"},{"name":"b","base64":"/g=="},{"name":"n","value":null},{"name_base64":"eP8=","value":"y"}]`))
		}},
		{"dropped headers", func(s scene) {
			s.produce(1)
			s.deliver(dest, msg(rec(0), "kafka_header_h", "", "kafka_headers_dropped", "1"))
		}},
		{"key hashed", func(s scene) {
			s.produce(1)
			s.deliver(dest, msg(rec(0), "kafka_key", sha("k0"), "kafka_key_encoding", "sha256"))
		}},
		{"wider gap on the second copy", func(s scene) {
			s.produce(1)
			s.store(dest, msg(rec(0), "kafka_offset_gap", "1"))
			s.deliver(dest, msg(rec(0), "kafka_offset_gap", "2"))
		}},
		{"loss reported, with what was stored before", func(s scene) {
			s.produce(3)
			s.pass(0, 1)
			s.Trimmed(place, 0, 2)
			s.LossReported(place, 0, 2)
			s.pass(2, 3)
			s.commit(commit(3))
		}},
		{"truncated and written anew", func(s scene) {
			s.produce(3)
			s.pass(0, 3)
			s.Truncated(place, 1)
			r := rec(1)
			r.Value = []byte("new")
			s.Produced(id, r)
			s.deliver(dest, msg(r, "idempotency_key", "v1/msk/payments/AQIDAAAAAAAAAAAAAAAAAA/2/6/1"))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			tt.plot(s)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			if err := s.CheckEvents(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestViolationNamesSeedEventAndPast(t *testing.T) {
	var told []history.Violation
	h := history.New(history.Options{Seed: 99, Cluster: "msk", Group: "g", Routes: map[string]string{dest: "payments"},
		OnViolation: func(v history.Violation) { told = append(told, v) }})
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
	s := newScene()
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
