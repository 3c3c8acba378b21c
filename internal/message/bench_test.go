package message_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/message"
)

// typical is 200 B and 3 headers: 9 attributes, about 500 bytes as a message.
func typical() *message.Record {
	return &message.Record{
		Key: []byte("customer-1234567"), Value: bytes.Repeat([]byte("x"), 200),
		Headers:     header("content-type", "application/json", "trace-id", "0af7651916cd43dd", "source", "orders-svc"),
		TimestampMs: 1700000000000, Offset: 123456789, LeaderEpoch: 5,
	}
}

// changeEvent is a value of JSON, 240 B.
var changeEvent = []byte(`{"op":"u","ts_ms":1700000000000,"source":{"db":"shop","table":"orders","lsn":884213355},"after":{"id":4711,` +
	`"status":"PAID","total":19.99e0,"discount":null,"gift":true,"note":"leave at the \"back\" door, gr\u00f6\u00dfer \ud83d\ude00"}}`)

// TestEncoderAllocatesNothing: in steady state, whatever the record.
func TestEncoderAllocatesNothing(t *testing.T) {
	many := numbered(200)
	for i := range many {
		many[i].Value = bytes.Repeat([]byte{byte(i)}, i)
	}
	for name, rec := range map[string]*message.Record{
		"typical":      typical(),
		"no headers":   {Value: []byte("v")},
		"tombstone":    {Key: []byte("k"), Gap: 5},
		"binary key":   {Key: bytes.Repeat([]byte{0xff}, 500)},
		"hashed key":   {Key: bytes.Repeat([]byte{0xff}, 5000)},
		"left headers": {Headers: header("a", "1", "a", "2", "b", "\xff", "", "x", "traceparent", trace)},
		"many headers": {Headers: many},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range []message.Format{message.Raw, message.EnvelopeBytes, message.EnvelopeJSON} {
				rec := *rec
				if f == message.EnvelopeJSON && rec.Value != nil {
					rec.Value = changeEvent
				}
				e, p := route{ordered: true}.wrapped(f)
				slab := make([]byte, 0, 64<<10)
				other := message.Record{Headers: header("another", "name"), Offset: 1 << 40, TimestampMs: 1, LeaderEpoch: 9}
				allocs := testing.AllocsPerRun(100, func() {
					e.Measure(p, &rec)
					slab = e.AppendTo(slab[:0])
					e.Measure(p, &other) // so that nothing can be remembered
					slab = e.AppendTo(slab)
				})
				if allocs != 0 {
					t.Errorf("format %d: %v allocations", f, allocs)
				}
			}
		})
	}
}

func TestAttributeAllocatesTheStringAlone(t *testing.T) {
	e, p := route{}.encoder()
	e.Measure(p, typical())
	field := e.AppendTo(nil)
	if allocs := testing.AllocsPerRun(100, func() { message.Attribute(field, message.AttrTopic) }); allocs > 1 {
		t.Errorf("%v allocations for one found", allocs)
	}
	if allocs := testing.AllocsPerRun(100, func() { message.Attribute(field, "absent") }); allocs != 0 {
		t.Errorf("%v allocations for none found", allocs)
	}
}

func BenchmarkAppend(b *testing.B) {
	bench := func(b *testing.B, rec *message.Record, f message.Format) {
		b.Helper()
		e, p := route{}.wrapped(f)
		slab := make([]byte, 0, 1<<20)
		n, _ := e.Measure(p, rec)
		b.SetBytes(int64(n))
		b.ReportAllocs()
		for b.Loop() {
			rec.Offset++
			n, _ := e.Measure(p, rec)
			if len(slab)+n > cap(slab) {
				slab = slab[:0]
			}
			slab = e.AppendTo(slab)
		}
	}
	b.Run("200B+3headers", func(b *testing.B) { bench(b, typical(), message.Raw) })
	b.Run("200B", func(b *testing.B) {
		rec := typical()
		rec.Headers = nil
		bench(b, rec, message.Raw)
	})
	b.Run("1KB+3headers", func(b *testing.B) {
		rec := typical()
		rec.Value = bytes.Repeat([]byte("x"), 1000)
		bench(b, rec, message.Raw)
	})
	b.Run("envelope/200B+3headers", func(b *testing.B) { bench(b, typical(), message.EnvelopeBytes) })
	b.Run("envelope/1KB+3headers", func(b *testing.B) {
		rec := typical()
		rec.Value = bytes.Repeat([]byte("x"), 1000)
		bench(b, rec, message.EnvelopeBytes)
	})
	b.Run("envelope/json/240B+3headers", func(b *testing.B) {
		rec := typical()
		rec.Value = changeEvent
		bench(b, rec, message.EnvelopeJSON)
	})
	b.Run("envelope/json/1KB+3headers", func(b *testing.B) {
		rec := typical()
		rec.Value = append(append([]byte("["), bytes.Repeat(append(changeEvent, ','), 4)...), "1]"...)
		bench(b, rec, message.EnvelopeJSON)
	})
	// The same messages as a user of the client library makes them.
	b.Run("protobuf/200B+3headers", func(b *testing.B) {
		rec := typical()
		id := route{}.id(rec)
		b.ReportAllocs()
		for b.Loop() {
			rec.Offset++
			id.Offset++
			attributes := map[string]string{
				message.AttrIdempotencyKey: id.String(),
				message.AttrTopic:          testTopic,
				message.AttrPartition:      "0",
				message.AttrOffset:         strconv.FormatInt(rec.Offset, 10),
				message.AttrTimestamp:      strconv.FormatInt(rec.TimestampMs, 10),
				message.AttrKey:            string(rec.Key),
			}
			for _, h := range rec.Headers {
				attributes[message.AttrHeaderPrefix+h.Name] = string(h.Value)
			}
			m := &pubsubpb.PubsubMessage{Data: rec.Value, Attributes: attributes}
			if _, err := proto.Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHostileHeaders is 1 MB of headers made to be dear. It has to stay in
// the milliseconds, or one record would hold up its route.
func BenchmarkHostileHeaders(b *testing.B) {
	distinct := make([]message.Header, 100_000)
	null := make([]message.Header, len(distinct))
	same := make([]message.Header, len(distinct))
	for i := range distinct {
		name := fmt.Sprintf("%08x", i)
		distinct[i] = message.Header{Name: name, Value: []byte("xy")}
		null[i] = message.Header{Name: name}
		same[i] = message.Header{Name: "name", Value: []byte("value!")}
	}
	escaped := make([]message.Header, 1000)
	for i := range escaped {
		escaped[i] = message.Header{Value: bytes.Repeat([]byte("\x01"), 1000)}
	}
	prefix := make([]message.Header, 4000)
	for i := range prefix {
		prefix[i] = message.Header{Name: strings.Repeat("p", 230) + fmt.Sprint(i), Value: []byte("v")}
	}
	for name, hs := range map[string][]message.Header{
		"100k distinct": distinct, "100k null": null, "100k of one name": same, "1k to escape": escaped, "4k with one prefix": prefix,
	} {
		b.Run(name, func(b *testing.B) {
			e, p := route{}.encoder()
			for b.Loop() {
				e.Measure(p, &message.Record{Headers: hs})
			}
		})
	}
}
