package message_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/message"
)

func TestHeaderFilter(t *testing.T) {
	tests := []struct {
		name        string
		allow, deny string // separated by commas
		header      string
		sent        bool
	}{
		{"nothing set", "", "", "a", true},
		{"denied", "", "internal-*", "internal-ip", false},
		{"not denied", "", "internal-*", "external-ip", true},
		{"a star stands for nothing too", "", "internal-*", "internal-", false},
		{"the whole name has to match", "", "internal", "internal-ip", true},
		{"allowed", "app-*,b", "", "b", true},
		{"not allowed", "app-*,b", "", "c", false},
		{"deny beats allow", "app-*", "*-secret", "app-secret", false},
		{"case counts", "", "Internal", "internal", true},
		{"a star crosses slashes and dots", "", "a*z", "a/b.c\nz", false},
		{"two stars", "", "*b*", "abc", false},
		{"stars in a row", "", "a**c", "abc", false},
		{"leftmost literal, then the end", "", "*ab*b", "abab", false},
		{"the end is not used twice", "", "*ab*ab", "ab", true},
		{"other glob signs are literal", "", "[a-z]?", "b1", true},
		{"the empty name", "", "*", "", false},
		{"hostile", "", strings.Repeat("*a", 50) + "*b", strings.Repeat("a", 200), true},
	}
	split := func(s string) []string {
		if s == "" {
			return nil
		}
		return strings.Split(s, ",")
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := route{allow: split(test.allow), deny: split(test.deny)}
			e, p := r.encoder()
			rec := message.Record{Value: []byte("v"), Headers: header(test.header, "value", "kept-by-nobody", "x")}
			if _, refusal := e.Measure(p, &rec); refusal != nil {
				t.Fatal(refusal)
			}
			got := e.AppendTo(nil)
			if want := marshal(t, r.reference(&rec))[len(e.Head()):]; !bytes.Equal(got, want) {
				t.Errorf("got %v\nwant %v", decode(t, got), decode(t, want))
			}
			// A name that no attribute can have is sent in the array.
			attributes := decode(t, got)[0].Attributes
			_, own := attributes[message.AttrHeaderPrefix+test.header]
			if sent := own || strings.Contains(attributes[message.AttrHeadersJSON], `"value":"value"`); sent != test.sent {
				t.Errorf("sent: %v, want %v; attributes %v", sent, test.sent, attributes)
			}
			if n, ok := attributes[message.AttrHeadersDropped]; ok {
				t.Errorf("%s counted as dropped", n)
			}
		})
	}
}

// Trace context follows the filter, and what a filter leaves out makes room.
func TestHeaderFilterTraceAndRoom(t *testing.T) {
	r := route{deny: []string{"trace*"}}
	e, p := r.encoder()
	e.Measure(p, &message.Record{Headers: header("traceparent", trace, "a", "1")})
	m := decode(t, e.AppendTo(nil))[0]
	if _, ok := m.Attributes[message.AttrTraceparent]; ok || m.Attributes["kafka_header_a"] != "1" {
		t.Errorf("attributes %v", m.Attributes)
	}
	var many []message.Header
	for range 200 {
		many = append(many, header("trace-x", "1")...)
	}
	e.Measure(p, &message.Record{Headers: append(many, header("a", "1")...)})
	if m := decode(t, e.AppendTo(nil))[0]; m.Attributes["kafka_header_a"] != "1" || m.Attributes[message.AttrHeadersDropped] != "" {
		t.Errorf("attributes %v", m.Attributes)
	}
}

func TestOrderByKey(t *testing.T) {
	tests := []struct{ name, key, want string }{
		{"null", "null", ""},
		{"empty", "", ""},
		{"text", "customer 1", "customer 1"},
		{"not text", "\xff\x00", "/wA="},
		{"longest", strings.Repeat("k", 1024), strings.Repeat("k", 1024)},
		{"too long", strings.Repeat("k", 1025), ""},
	}
	e, p := route{byKey: true}.encoder()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rec := message.Record{Key: []byte(test.key), Value: []byte("v")}
			if test.name == "null" {
				rec.Key = nil
			}
			e.Measure(p, &rec)
			got := string(e.OrderingKey())
			m := decode(t, e.AppendTo(nil))[0]
			if m.OrderingKey != got || got != m.Attributes[message.AttrKey] {
				t.Errorf("ordering key %q, in the message %q, kafka_key %q", got, m.OrderingKey, m.Attributes[message.AttrKey])
			}
			if test.name == "too long" {
				if len(got) != 64 {
					t.Errorf("ordering key %q, want a hash", got)
				}
			} else if got != test.want {
				t.Errorf("ordering key %q, want %q", got, test.want)
			}
			if key := e.OrderingKey(); len(key) > 0 {
				t.Errorf("ordering key %q after AppendTo", key)
			}
		})
	}
}
