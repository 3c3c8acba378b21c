package message_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/message"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// header makes headers from name, value pairs.
func header(pairs ...string) []message.Header {
	var hs []message.Header
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, message.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

// numbered returns n headers with different names.
func numbered(n int) []message.Header {
	hs := make([]message.Header, n)
	for i := range hs {
		hs[i] = message.Header{Name: fmt.Sprintf("h%d", i), Value: fmt.Append(nil, i)}
	}
	return hs
}

// records is one of everything, by name. The order of the names is the order
// in which one Encoder meets them.
func records() []struct {
	name string
	message.Record
} {
	type r = message.Record
	null := message.Header{Name: "n"}
	return []struct {
		name string
		message.Record
	}{
		{"plain", r{Key: []byte("k"), Value: []byte("v"), TimestampMs: 1700000000000, Offset: 41, LeaderEpoch: 5}},
		{"next", r{Key: []byte("k"), Value: []byte("v"), TimestampMs: 1700000000001, Offset: 42, LeaderEpoch: 5}},
		{"more digits", r{Key: []byte("k"), Value: []byte("v"), TimestampMs: 17, Offset: 1000, LeaderEpoch: 5}},
		{"next epoch", r{Key: []byte("k"), Value: []byte("v"), TimestampMs: 17, Offset: 1001, LeaderEpoch: 6}},
		{"extremes", r{Value: []byte("v"), TimestampMs: math.MaxInt64, Offset: math.MaxInt64, LeaderEpoch: math.MaxInt32, Gap: math.MaxInt64}},
		{"nothing known", r{Value: []byte("v"), TimestampMs: -1, LeaderEpoch: -1}},
		{"odd time", r{Value: []byte("v"), TimestampMs: -2}},
		{"null key", r{Value: []byte("v")}},
		{"empty key", r{Key: []byte{}, Value: []byte("v")}},
		{"binary key", r{Key: []byte{0xff, 0}, Value: []byte("v")}},
		{"key with zero", r{Key: []byte("a\x00"), Value: []byte("v")}},
		{"long key with zero", r{Key: []byte("12345678\x0012345678"), Value: []byte("v")}},
		{"key in Greek", r{Key: []byte("κλειδί κλειδί"), Value: []byte("v")}},
		{"key ends in half a rune", r{Key: []byte("12345678é")[:9], Value: []byte("v")}},
		{"key of length 128", r{Key: bytes.Repeat([]byte("k"), 128), Value: []byte("v")}},
		{"tombstone", r{Key: []byte("k")}},
		{"empty value", r{Key: []byte("k"), Value: []byte{}}},
		{"gap", r{Value: []byte("v"), Gap: 3}},
		{"no gap", r{Value: []byte("v"), Gap: 0}},
		{"headers", r{Value: []byte("v"), Headers: header("b", "1", "a", "2", "c", "")}},
		{"same headers", r{Value: []byte("v"), Headers: header("b", "3", "a", "4", "c", "5")}},
		{"no headers between", r{Value: []byte("v")}},
		{"same headers again", r{Value: []byte("v"), Headers: header("b", "6", "a", "7", "c", "8")}},
		{"same names in other order", r{Value: []byte("v"), Headers: header("a", "1", "b", "2", "c", "3")}},
		{"same names, one now binary", r{Value: []byte("v"), Headers: header("a", "1", "b", "\xff", "c", "3")}},
		{"same names, one now null", r{Value: []byte("v"), Headers: []message.Header{{Name: "a", Value: []byte{}}, {Name: "b"}}}},
		{"one name less", r{Value: []byte("v"), Headers: header("a", "1", "b", "2")}},
		{"prefix of a name", r{Value: []byte("v"), Headers: header("a", "1", "aa", "2")}},
		{"repeated name", r{Value: []byte("v"), Headers: header("a", "1", "b", "x", "a", "2", "a", "3")}},
		{"repeated name, last one binary", r{Value: []byte("v"), Headers: header("a", "1", "a", "\xff")}},
		{"repeated name, last one null", r{Value: []byte("v"), Headers: append(header("n", "1"), null)}},
		{"binary value", r{Value: []byte("v"), Headers: header("a", "\xfe\xff\x00")}},
		{"value with zero", r{Value: []byte("v"), Headers: header("a", "x\x00")}},
		{"binary name", r{Value: []byte("v"), Headers: header("\xff", "x", "\xfe", "\xff")}},
		{"binary name, null value", r{Value: []byte("v"), Headers: []message.Header{{Name: "a\x00"}}}},
		{"empty name", r{Value: []byte("v"), Headers: header("", "x")}},
		{"null header", r{Value: []byte("v"), Headers: []message.Header{null}}},
		{"escapes", r{Value: []byte("v"), Headers: header("a\"\\\n\u2028", "<&>\t\x01", "a\"\\\n\u2028", "z")}},
		{"reserved names", r{Value: []byte("v"), Headers: header("idempotency_key", "forged", "kafka_offset", "9", "goog", "x", "s_json", "x", "s_dropped", "1", "mskbridge_reason", "x")}},
		{"long header", r{Value: []byte("v"), Headers: header("a", strings.Repeat("x", 2000), "b", "\xff")}},
		{"trace", r{Value: []byte("v"), Headers: header("traceparent", trace)}},
		{"same trace names", r{Value: []byte("v"), Headers: header("traceparent", strings.Replace(trace, "b7", "c8", 1))}},
		{"same trace names, not valid", r{Value: []byte("v"), Headers: header("traceparent", "x")}},
		{"trace repeated", r{Value: []byte("v"), Headers: header("traceparent", trace, "traceparent", strings.Replace(trace, "b7", "c8", 1))}},
		{"trace repeated, last one not valid", r{Value: []byte("v"), Headers: header("traceparent", trace, "traceparent", "x")}},
		{"trace and another", r{Value: []byte("v"), Headers: header("traceparent", trace, "z", "")}},
		{"trace hidden by one not valid", r{Value: []byte("v"), Headers: header("traceparent", trace, "traceparent", "x")}},
		{"150 headers", r{Value: []byte("v"), Headers: numbered(150)}},
		{"150 headers, trace last", r{Value: []byte("v"), Headers: append(numbered(150), header("traceparent", trace)...)}},
		{"2,000 headers", r{Value: []byte("v"), Headers: numbered(2000)}},
		{"17 headers, one repeated", r{Value: []byte("v"), Headers: append(numbered(16), header("h3", "last")...)}},
		{"17 headers", r{Value: []byte("v"), Headers: numbered(17)}},
	}
}

// TestEncoderWritesWhatProtobufWrites has one Encoder write everything, twice,
// so that nothing of one record may show in the next.
func TestEncoderWritesWhatProtobufWrites(t *testing.T) {
	for _, r := range []route{
		{topicID: [16]byte{1, 2, 3}, partition: 12},
		{ordered: true},
	} {
		t.Run(fmt.Sprintf("ordered=%v", r.ordered), func(t *testing.T) {
			e, p := r.encoder()
			if want := marshal(t); !bytes.Equal(e.Head(), want) {
				t.Fatalf("Head = %x, want %x", e.Head(), want)
			}
			for range 2 {
				for _, test := range records() {
					n, refusal := e.Measure(p, &test.Record)
					if refusal != nil {
						t.Fatalf("%s: refused: %v", test.name, refusal)
					}
					got := e.AppendTo(e.Head()[:len(e.Head()):len(e.Head())])
					if n != len(got)-len(e.Head()) {
						t.Errorf("%s: Measure = %d, AppendTo wrote %d", test.name, n, len(got)-len(e.Head()))
					}
					want := r.reference(&test.Record)
					if !bytes.Equal(got, marshal(t, want)) {
						t.Errorf("%s:\n got %v\nwant %v", test.name, decode(t, got)[0], want)
					}
					checkLegal(t, want)
					checkHeaders(t, want.Attributes, test.Headers)
				}
			}
		})
	}
}

// TestPartitionsShareAnEncoder alternates two partitions in different epochs.
func TestPartitionsShareAnEncoder(t *testing.T) {
	routes := []route{{ordered: true, topicID: [16]byte{1}, partition: 0}, {ordered: true, topicID: [16]byte{1}, partition: 7}}
	e, p0 := routes[0].encoder()
	partitions := []*message.Partition{p0, e.Partition(routes[1].topicID, 7)}
	slab := bytes.Clone(e.Head())
	var want []byte
	for i := range 20 {
		rec := message.Record{Value: fmt.Append(nil, i), Offset: int64(i), LeaderEpoch: int32(i % 2 * 100)}
		e.Measure(partitions[i%2], &rec)
		slab = e.AppendTo(slab)
		want = append(want, marshal(t, routes[i%2].reference(&rec))[len(e.Head()):]...)
	}
	if !bytes.Equal(slab[len(e.Head()):], want) {
		t.Errorf("slab differs from the reference")
	}
}

// TestMessageGolden pins the bytes of one full message.
func TestMessageGolden(t *testing.T) {
	r := route{ordered: true, topicID: [16]byte{0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, partition: 3}
	rec := message.Record{
		Key: []byte{0xff, 1}, TimestampMs: 1700000000000, Offset: 123456, LeaderEpoch: 17, Gap: 2,
		Headers: append(header("source", "shop", "traceparent", trace, "source", "web", "raw", "\xfe", "big", strings.Repeat("x", 1025)),
			message.Header{Name: "null"}),
	}
	e, p := r.encoder()
	e.Measure(p, &rec)
	got := hex.Dump(e.AppendTo(bytes.Clone(e.Head())))
	want, err := os.ReadFile("testdata/message.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAttribute(t *testing.T) {
	for _, test := range records() {
		e, p := route{}.encoder()
		e.Measure(p, &test.Record)
		field := e.AppendTo(nil)
		want := decode(t, field)[0].Attributes
		for name, value := range want {
			if got, ok := message.Attribute(field, name); !ok || got != value {
				t.Errorf("%s: Attribute(%q) = %q, %v; want %q", test.name, name, got, ok, value)
			}
		}
		for _, name := range []string{"", "kafka_", "kafka_offset_", "absent"} {
			if got, ok := message.Attribute(field, name); ok {
				t.Errorf("%s: Attribute(%q) = %q, want none", test.name, name, got)
			}
		}
		for i := range field { // cut anywhere it neither panics nor finds what is not there
			if got, ok := message.Attribute(field[:i], message.AttrIdempotencyKey); ok {
				t.Fatalf("%s: found %q in %d of %d bytes", test.name, got, i, len(field))
			}
		}
	}
}

// TestEncoderCopiesTheRecord: only the value is read after Measure, and nothing
// after AppendTo.
func TestEncoderCopiesTheRecord(t *testing.T) {
	e, p := route{}.encoder()
	rec := message.Record{
		Key: []byte("key"), Value: []byte("value"), Headers: header("a", "1"), TimestampMs: 5,
	}
	e.Measure(p, &rec)
	for _, b := range [][]byte{rec.Key, rec.Headers[0].Value} {
		clear(b) // only the value is needed after Measure
	}
	field := e.AppendTo(nil)
	clear(rec.Value)
	want := route{}.reference(&message.Record{Key: []byte("key"), Value: []byte("value"), Headers: header("a", "1"), TimestampMs: 5})
	if got := decode(t, field)[0]; !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
