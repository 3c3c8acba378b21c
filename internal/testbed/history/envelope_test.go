package history_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/history"
)

func envelopeScene(form history.Envelope) scene {
	return scene{history.New(history.Options{
		Seed: 7, Cluster: "msk", Group: "g", DeadLetters: []string{dead},
		Routes:    map[string]string{dest: "payments"},
		Envelopes: map[string]history.Envelope{"payments": form},
	})}
}

// wrapped is msg with its data in an envelope. The edits replace text of it.
func wrapped(r *kgo.Record, value string, edits ...string) fakepubsub.Message {
	data := fmt.Sprintf(`{"idempotency_key":"v1/msk/payments/%s/2/5/%d","kafka_cluster":"msk","kafka_topic":"payments","kafka_topic_id":"%[1]s",`+
		`"kafka_partition":2,"kafka_offset":%[2]d,"kafka_leader_epoch":5,"kafka_timestamp":null,"kafka_date":"1970-01-01","kafka_key":"%s",`+
		`"is_tombstone":%v,"kafka_offset_gap":0,"headers":[{"name":"h","value":"x"}],"value":%s}`,
		base64.RawURLEncoding.EncodeToString(id[:]), r.Offset, base64.StdEncoding.EncodeToString(r.Key), r.Value == nil, value)
	return msg(r, "data", strings.NewReplacer(edits...).Replace(data))
}

func in64(b []byte) string { return `"` + base64.StdEncoding.EncodeToString(b) + `"` }

func TestEnvelopes(t *testing.T) {
	null, js := rec(0), rec(0)
	null.Value, js.Value = nil, []byte(`{"a":"b"}`)
	const text = `"{\"a\":\"b\"}"`
	tests := []struct {
		name, want string // "" for sound
		form       history.Envelope
		record     *kgo.Record
		message    fakepubsub.Message
	}{
		{"sound", "", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64(rec(0).Value))},
		{"sound JSON", "", history.EnvelopeJSON, js, wrapped(js, text)},
		{"sound tombstone", "", history.EnvelopeJSON, null, wrapped(null, "null")},
		{"sound time", "", history.EnvelopeBytes, rec(0), func() fakepubsub.Message {
			m := wrapped(rec(0), in64(rec(0).Value), `"kafka_timestamp":null,"kafka_date":"1970-01-01"`, `"kafka_timestamp":"2023-11-14T22:13:20.123000Z","kafka_date":"2023-11-14"`)
			m.Attributes = append(m.Attributes, fakepubsub.Attribute{Name: []byte("kafka_timestamp_ms"), Value: []byte("1700000000123")})
			return m
		}()},
		{"raw value", "I7", history.EnvelopeBytes, rec(0), msg(rec(0))},
		{"another value", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64([]byte("other")))},
		{"value as an object", "I7", history.EnvelopeJSON, js, wrapped(js, `{"a":"b"}`)},
		{"value that is not JSON", "I7", history.EnvelopeJSON, rec(0), wrapped(rec(0), `"v0"`)},
		{"tombstone unsaid", "I7", history.EnvelopeBytes, null, wrapped(null, "null", `"is_tombstone":true`, `"is_tombstone":false`)},
		{"value lost", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), "null")},
		{"another offset", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64(rec(0).Value), `"kafka_offset":0`, `"kafka_offset":1`)},
		{"another epoch", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64(rec(0).Value), `epoch":5`, `epoch":6`)},
		{"another key", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64(rec(0).Value), `"kafka_key":"azA="`, `"kafka_key":"azE="`)},
		{"header lost", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64(rec(0).Value), `{"name":"h","value":"x"}`, ``)},
		{"another day", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64(rec(0).Value), `1970-01-01`, `1970-01-02`)},
		{"a gap of its own", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64(rec(0).Value), `gap":0`, `gap":1`)},
		{"an unknown member", "I7", history.EnvelopeBytes, rec(0), wrapped(rec(0), in64(rec(0).Value), `"headers"`, `"more":1,"headers"`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := envelopeScene(tt.form)
			s.Produced(id, tt.record)
			s.deliver(dest, tt.message)
			vs, _ := s.Violations()
			if got := len(vs) > 0; got != (tt.want != "") || got && vs[0].Invariant != tt.want {
				t.Errorf("%v, want %q", vs, tt.want)
			}
		})
	}
}

func TestParkedOfEnvelopes(t *testing.T) {
	js := rec(0)
	js.Value = []byte(`{"a":"b"}`)
	tests := []struct {
		name    string
		sound   bool
		record  *kgo.Record
		message fakepubsub.Message
	}{
		{"not JSON", true, rec(0), msg(rec(0), "mskbridge_reason", "undecodable")},
		{"JSON", false, js, msg(js, "mskbridge_reason", "undecodable")},
		{"in its envelope", false, rec(0), wrapped(rec(0), `"v0"`)},
		{"too large", true, js, msg(js, "mskbridge_reason", "too_large", "data", "", "mskbridge_sha256", sha(string(js.Value)))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := envelopeScene(history.EnvelopeJSON)
			s.Produced(id, tt.record)
			s.deliver(dead, tt.message)
			if vs, _ := s.Violations(); (len(vs) == 0) != tt.sound {
				t.Errorf("%v", vs)
			}
		})
	}
}
