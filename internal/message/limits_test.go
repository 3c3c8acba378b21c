package message_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/message"
)

// attributesOf returns the attributes of the message that rec becomes, after
// comparing it with the reference.
func attributesOf(t *testing.T, rec *message.Record) map[string]string {
	t.Helper()
	e, p := route{}.encoder()
	if _, refusal := e.Measure(p, rec); refusal != nil {
		t.Fatalf("refused: %v", refusal)
	}
	m := decode(t, e.AppendTo(nil))[0]
	if want := (route{}).reference(rec); !proto.Equal(m, want) {
		t.Errorf("got %v\nwant %v", m, want)
	}
	checkLegal(t, m)
	checkHeaders(t, m.Attributes, rec.Headers)
	return m.Attributes
}

func TestHeaderLimits(t *testing.T) {
	const longest = message.MaxAttributeName - len(message.AttrHeaderPrefix)
	tests := []struct {
		name, value int // bytes
		own         bool
		dropped     string
	}{
		{longest - 1, 1, true, ""},
		{longest, 1, true, ""},
		{longest + 1, 1, false, ""},
		{1, 1023, true, ""},
		{1, 1024, true, ""},
		{1, 1025, false, "1"},
		{longest, 1024, true, ""},
		{128 - len(message.AttrHeaderPrefix) - 1, 127, true, ""}, // lengths of one byte
		{128 - len(message.AttrHeaderPrefix), 128, true, ""},     // and of two
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("name=%d,value=%d", test.name, test.value), func(t *testing.T) {
			name := strings.Repeat("n", test.name)
			got := attributesOf(t, &message.Record{Value: []byte("v"), Headers: header(name, strings.Repeat("x", test.value))})
			if _, own := got[message.AttrHeaderPrefix+name]; own != test.own {
				t.Errorf("an attribute of its own: %v, want %v", own, test.own)
			}
			if got[message.AttrHeadersDropped] != test.dropped {
				t.Errorf("dropped = %q, want %q", got[message.AttrHeadersDropped], test.dropped)
			}
		})
	}
}

func TestHeadersJSONLimit(t *testing.T) {
	// The earlier value of a repeated name has to go into the array.
	around := len(`[{"name":"a","value":""}]`)
	for _, test := range []struct {
		size    int // of the array
		dropped string
	}{{1023, ""}, {1024, ""}, {1025, "1"}} {
		t.Run(strconv.Itoa(test.size), func(t *testing.T) {
			got := attributesOf(t, &message.Record{Headers: header("a", strings.Repeat("x", test.size-around), "a", "last")})
			if got[message.AttrHeadersDropped] != test.dropped {
				t.Errorf("dropped = %q, want %q", got[message.AttrHeadersDropped], test.dropped)
			}
			if n := len(got[message.AttrHeadersJSON]); test.dropped == "" && n != test.size {
				t.Errorf("array of %d bytes, want %d", n, test.size)
			}
		})
	}
	t.Run("a later entry that fits is kept", func(t *testing.T) {
		got := attributesOf(t, &message.Record{Headers: header("a", strings.Repeat("x", 1020), "b", "1", "a", "", "b", "")})
		if got[message.AttrHeadersJSON] != `[{"name":"b","value":"1"}]` || got[message.AttrHeadersDropped] != "1" {
			t.Errorf("got %v", got)
		}
	})
}

func TestKeyLimits(t *testing.T) {
	for _, test := range []struct {
		key      string
		encoding string
	}{
		{strings.Repeat("k", 1023), ""},
		{strings.Repeat("k", 1024), ""},
		{strings.Repeat("k", 1025), message.KeySHA256},
		{strings.Repeat("é", 512), ""},
		{strings.Repeat("\xff", 767), message.KeyBase64},
		{strings.Repeat("\xff", 768), message.KeyBase64},
		{strings.Repeat("\xff", 769), message.KeySHA256},
		{strings.Repeat("k", 768) + "\x00", message.KeySHA256},
	} {
		t.Run(fmt.Sprintf("%d bytes %q", len(test.key), test.key[:1]), func(t *testing.T) {
			got := attributesOf(t, &message.Record{Key: []byte(test.key)})
			if got[message.AttrKeyEncoding] != test.encoding {
				t.Errorf("encoding = %q, want %q", got[message.AttrKeyEncoding], test.encoding)
			}
		})
	}
}

func TestAttributeCountLimit(t *testing.T) {
	full := message.Record{Key: []byte("\xff"), TimestampMs: 1, Gap: 1} // 9 beside the headers
	bare := message.Record{Value: []byte("v"), TimestampMs: -1, Gap: 1} // 5
	traced := header("traceparent", trace)
	for _, test := range []struct {
		name    string
		record  message.Record
		headers []message.Header
		want    int // attributes
		own     int // headers among them
	}{
		{"full, one free", full, numbered(90), 99, 90},
		{"full, none free", full, numbered(91), 100, 91},
		{"full, one too many", full, numbered(92), 99, 89}, // no count: all 3 fit the array
		{"bare, none free", bare, numbered(95), 100, 95},
		{"bare, one too many", bare, numbered(96), 99, 93},
		{"bare, array full", bare, numbered(300), 100, 93},
		{"trace, one free", bare, append(numbered(92), traced...), 99, 93},
		{"trace, none free", bare, append(numbered(93), traced...), 100, 94},
		{"trace, one too many", bare, append(numbered(94), traced...), 99, 92},
		{"one for the array", bare, append(numbered(92), header("b", "\xff")...), 98, 92},
		{"one for the array, none free", bare, append(numbered(93), header("b", "\xff")...), 99, 93},
		{"one for the array, one too many", bare, append(numbered(94), header("b", "\xff")...), 99, 93},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.record.Headers = test.headers
			got := attributesOf(t, &test.record)
			own := 0
			for name := range got {
				if strings.HasPrefix(name, message.AttrHeaderPrefix) {
					own++
				}
			}
			if len(got) != test.want || own != test.own {
				t.Errorf("%d attributes, %d headers; want %d, %d", len(got), own, test.want, test.own)
			}
			// A copy whose gap was still zero differs in nothing else.
			test.record.Gap = 0
			again := attributesOf(t, &test.record)
			again[message.AttrGap] = "1"
			if fmt.Sprint(again) != fmt.Sprint(got) {
				t.Errorf("without a gap: %v, want %v", again, got)
			}
		})
	}
}

func TestRequestLimit(t *testing.T) {
	e, p := route{ordered: true}.encoder()
	value := make([]byte, message.MaxRequest+1)
	rec := message.Record{Value: value[:message.MaxRequest-1000]}
	n, _ := e.Measure(p, &rec)
	around := len(e.Head()) + n - len(rec.Value) // all else; the lengths have as many digits below
	for _, over := range []int{-1, 0, 1} {
		rec.Value = value[:message.MaxRequest-around+over]
		n, refusal := e.Measure(p, &rec)
		request := e.AppendTo(bytes.Clone(e.Head()))
		if len(request) != message.MaxRequest+over || n != len(request)-len(e.Head()) {
			t.Fatalf("over by %d: request of %d bytes, measured %d", over, len(request), n)
		}
		if want := marshal(t, route{ordered: true}.reference(&rec)); !bytes.Equal(request, want) {
			t.Errorf("over by %d: bytes differ from protobuf's", over)
		}
		if (refusal != nil) != (over > 0) {
			t.Errorf("over by %d: refusal = %v", over, refusal)
		}
		if refusal != nil && refusal.Reason != message.TooLarge {
			t.Errorf("refusal = %v, want too_large", refusal)
		}
	}
}

func TestOrderingKeyLimit(t *testing.T) {
	topic := strings.Repeat("t", 249) // the longest that Kafka allows
	e := message.NewEncoder("msk", topic, testDestination, true)
	e.Measure(e.Partition([16]byte{}, 1<<31-1), &message.Record{})
	m := decode(t, e.AppendTo(nil))[0]
	checkLegal(t, m)
	if want := topic + "/2147483647"; m.OrderingKey != want {
		t.Errorf("ordering key = %q, want %q", m.OrderingKey, want)
	}
}

func TestTraceparent(t *testing.T) {
	tests := map[string]bool{
		trace:                               true,
		"cc" + trace[2:]:                    true, // a later version
		"01" + trace[2:] + "-what-comes":    true,
		trace + "-":                         false, // not in version 00
		"01" + trace[2:] + "x":              false,
		"ff" + trace[2:]:                    false,
		trace[:54]:                          false,
		"":                                  false,
		strings.ToUpper(trace):              false,
		strings.Replace(trace, "-", "_", 1): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":       false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":       false,
		"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01":       false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g":       false,
		"0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       false,
		"00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01":       false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-101":       false,
		"01" + trace[2:] + "-" + strings.Repeat("x", 1024):              false, // no attribute
		"01" + trace[2:] + "-\xff":                                      false,
		"01" + trace[2:] + "-" + strings.Repeat("x", 1024-len(trace)-1): true,
	}
	for value, want := range tests {
		t.Run(value, func(t *testing.T) {
			got, ok := attributesOf(t, &message.Record{Headers: header("traceparent", value)})[message.AttrTraceparent]
			if ok != want || ok && got != value {
				t.Errorf("%s = %q, %v; want %v", message.AttrTraceparent, got, ok, want)
			}
		})
	}
}
