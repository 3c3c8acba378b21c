package message_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/message"
)

// headersFrom reads a program for making headers: an operation, lengths, bytes.
func headersFrom(program []byte) []message.Header {
	var hs []message.Header
	take := func() []byte {
		if len(program) == 0 {
			return []byte{}
		}
		n := min(int(program[0]), len(program)-1)
		taken := program[1 : 1+n]
		program = program[1+n:]
		return taken
	}
	for len(program) > 0 && len(hs) < 5000 {
		op := program[0]
		program = program[1:]
		switch op % 6 {
		case 0, 1:
			hs = append(hs, message.Header{Name: string(take()), Value: take()})
		case 2:
			hs = append(hs, message.Header{Name: string(take())})
		case 3: // a long one
			name, value := take(), take()
			hs = append(hs, message.Header{
				Name:  strings.Repeat(string(name), 1+int(op)/16),
				Value: bytes.Repeat(value, 1+int(op)/8),
			})
		case 4: // many of different names
			name := string(take())
			for i := range int(op) {
				hs = append(hs, message.Header{Name: name + strconv.Itoa(i), Value: fmt.Append(nil, i)})
			}
		case 5: // an earlier one again
			if len(hs) > 0 {
				hs = append(hs, hs[int(op)%len(hs)])
			}
		}
	}
	return hs
}

func seedHeaders(f *testing.F, add func(program []byte)) {
	f.Helper()
	for _, program := range []string{
		"", "\x00\x01a\x01b", "\x00\x01a\x01b\x05\x00\x01c\x00", "\x02\x01a", "\x00\x00\x00", "\x00\x02\xff\xfe\x03\x00\x01\x02",
		"\xfb\x08namename\x40" + strings.Repeat("v", 64), "\x5e\x01n\x5e\x01m", "\x64\x01h\x00\x02\"\\\x03\n\t\x01",
		"\x00\x0btraceparent\x37" + trace + "\x5e\x01n", strings.Repeat("\x00\x01a\x01b", 20),
	} {
		add([]byte(program))
	}
}

// FuzzAttributes: any headers in, legal attributes out, nothing lost without
// being counted.
func FuzzAttributes(f *testing.F) {
	seedHeaders(f, func(program []byte) { f.Add(program, []byte("key"), true) })
	f.Fuzz(func(t *testing.T, program, key []byte, tombstone bool) {
		rec := message.Record{Key: key, Headers: headersFrom(program), Value: []byte{}}
		if tombstone {
			rec.Value = nil
		}
		e, p := route{}.encoder()
		for range 2 { // the second time along the remembered names
			if _, refusal := e.Measure(p, &rec); refusal != nil {
				t.Fatalf("refused: %v", refusal)
			}
			m := decode(t, e.AppendTo(nil))[0]
			checkLegal(t, m)
			checkHeaders(t, m.Attributes, rec.Headers)
		}
	})
}

// FuzzEncode packs records of two partitions and compares the request with
// what protobuf writes for the reference.
func FuzzEncode(f *testing.F) {
	seedHeaders(f, func(program []byte) {
		f.Add(program, []byte("\x00\x01a\x01b"), []byte("key"), []byte("value"), byte(3), int64(1700000000000), int64(42), int32(7), int64(0), true)
		f.Add(program, program, []byte("\xff"), []byte(""), byte(0), int64(-1), int64(0), int32(-1), int64(3), false)
		f.Add(program, program, []byte("\xff"), []byte(""), byte(0x0f), int64(-1), int64(0), int32(-1), int64(3), true)
		f.Add(program, program, []byte("key"), []byte("v"), byte(0x57), int64(1), int64(9), int32(1), int64(0), false)
	})
	f.Fuzz(func(t *testing.T, program, other, key, value []byte, null byte, ts, offset int64, epoch int32, gap int64, ordered bool) {
		one := route{ordered: ordered && null&4 == 0, byKey: null&4 != 0}
		if null&8 != 0 {
			one.deny = []string{"na*", "*\"*", "trace"}
		}
		if null&16 != 0 {
			one.allow = []string{"n*1", "traceparent", "*", "a"}[:1+null>>6]
		}
		two := one
		two.topicID, two.partition = [16]byte{9}, 1<<20
		routes := []route{one, two}
		e, p := routes[0].encoder()
		partitions := []*message.Partition{p, e.Partition(routes[1].topicID, routes[1].partition)}
		if null&1 == 0 {
			key = nil
		}
		if null&2 == 0 {
			value = nil
		}
		headers := [][]message.Header{headersFrom(program), headersFrom(program), headersFrom(other), headersFrom(program)}
		request := bytes.Clone(e.Head())
		var want []byte
		for i := range headers {
			rec := message.Record{
				Key: key, Value: value, Headers: headers[i], TimestampMs: ts,
				Offset: max(offset, 0)/2 + int64(i), LeaderEpoch: max(epoch, -1), Gap: gap,
			}
			n, refusal := e.Measure(partitions[i%2], &rec)
			if refusal != nil {
				t.Fatalf("refused: %v", refusal)
			}
			before := len(request)
			orderingKey := string(e.OrderingKey())
			request = e.AppendTo(request)
			if len(request)-before != n {
				t.Fatalf("record %d: measured %d, wrote %d", i, n, len(request)-before)
			}
			m := routes[i%2].reference(&rec)
			checkLegal(t, m)
			if orderingKey != m.OrderingKey {
				t.Fatalf("record %d: ordering key %q, want %q", i, orderingKey, m.OrderingKey)
			}
			want = append(want, marshal(t, m)[len(e.Head()):]...)
			if id, ok := message.Attribute(request[before:], message.AttrIdempotencyKey); !ok || id != routes[i%2].id(&rec).String() {
				t.Fatalf("record %d: Attribute = %q, %v", i, id, ok)
			}
		}
		if got := request[len(e.Head()):]; !bytes.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", decode(t, got), decode(t, want))
		}
	})
}

// FuzzClaim: whatever the field, the claim is legal; of a record's field it
// keeps everything but the data, or counts what had to go.
func FuzzClaim(f *testing.F) {
	seedHeaders(f, func(program []byte) {
		e, p := route{ordered: true}.encoder()
		e.Measure(p, &message.Record{Headers: headersFrom(program), Gap: 1})
		f.Add(program, []byte("value"), []byte("key"), e.AppendTo(nil), "gs://bucket/prefix/key")
	})
	f.Fuzz(func(t *testing.T, program, value, key, field []byte, url string) {
		checkLegal(t, decode(t, message.Claim(field, url, sha256.Sum256(value)))[0])

		rec := message.Record{Key: key, Value: value, Headers: headersFrom(program), Gap: 1, TimestampMs: 5}
		r := route{byKey: true}
		e, p := r.encoder()
		e.Measure(p, &rec)
		field = e.AppendTo(nil)
		if !bytes.Equal(message.Value(field), value) {
			t.Errorf("value %x, want %x", message.Value(field), value)
		}
		sum := sha256.Sum256(value)
		claim := message.Claim(field, "gs://bucket/key", sum)
		m := decode(t, claim)[0]
		checkLegal(t, m)
		if !bytes.Equal(claim, marshal(t, m)[len(e.Head()):]) {
			t.Errorf("bytes are not protobuf's for %v", m)
		}
		want := r.reference(&rec)
		if len(m.Data) > 0 || m.OrderingKey != want.OrderingKey {
			t.Errorf("%d bytes of data, ordering key %q, want none, %q", len(m.Data), m.OrderingKey, want.OrderingKey)
		}
		want.Attributes["kafka_value_url"] = "gs://bucket/key"
		want.Attributes["kafka_value_size"] = strconv.Itoa(len(value))
		want.Attributes["kafka_value_sha256"] = hex.EncodeToString(sum[:])
		if len(want.Attributes) <= message.MaxAttributes {
			if !maps.Equal(m.Attributes, want.Attributes) {
				t.Errorf("attributes %v\nwant %v", m.Attributes, want.Attributes)
			}
			return
		}
		checkHeaders(t, m.Attributes, rec.Headers)
		for name, value := range want.Attributes {
			if got, ok := m.Attributes[name]; got != value && (ok && name != "kafka_headers_dropped" || !strings.HasPrefix(name, "kafka_header")) {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
	})
}

// FuzzPark: whatever the field, what comes out is legal; a record's field
// keeps its identity, its value and the account of its headers.
func FuzzPark(f *testing.F) {
	seedHeaders(f, func(program []byte) {
		e, p := route{ordered: true}.encoder()
		e.Measure(p, &message.Record{Headers: headersFrom(program), Gap: 1})
		f.Add(program, []byte("value"), e.AppendTo(nil), "detail \xff\x00", "projects/p/topics/t")
	})
	f.Fuzz(func(t *testing.T, program, value, field []byte, detail, destination string) {
		refusal := &message.Refusal{Reason: message.Refused, Detail: detail}
		if ms := decode(t, message.Park(field, refusal, destination)); len(ms) != 1 {
			t.Fatalf("%d messages, want 1", len(ms))
		} else {
			checkLegal(t, ms[0])
		}

		rec := message.Record{Value: value, Headers: headersFrom(program)}
		e, p := route{ordered: true}.encoder()
		e.Measure(p, &rec)
		field = e.AppendTo(nil)
		parked := message.Park(field, refusal, destination)
		m := decode(t, parked)[0]
		checkLegal(t, m)
		if !bytes.Equal(parked, marshal(t, m)[len(e.Head()):]) {
			t.Errorf("parked bytes are not protobuf's for %v", m)
		}
		if m.OrderingKey != "" || !bytes.Equal(m.Data, value) {
			t.Errorf("ordering key %q, data %x, want none, %x", m.OrderingKey, m.Data, value)
		}
		sum := sha256.Sum256(value)
		for name, want := range map[string]string{
			"idempotency_key":  route{}.id(&rec).String(),
			"mskbridge_reason": "refused",
			"mskbridge_size":   strconv.Itoa(len(value)),
			"mskbridge_sha256": hex.EncodeToString(sum[:]),
		} {
			if m.Attributes[name] != want {
				t.Errorf("%s = %q, want %q", name, m.Attributes[name], want)
			}
		}
		checkHeaders(t, m.Attributes, rec.Headers)
		if again := message.Park(field, refusal, destination); !bytes.Equal(parked, again) {
			t.Errorf("two copies differ: %v and %v", m, decode(t, again)[0])
		}
		if twice := decode(t, message.Park(parked, refusal, destination))[0]; !proto.Equal(twice, m) {
			t.Errorf("parked twice: %v, want %v", twice, m)
		}
	})
}
