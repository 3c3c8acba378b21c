package load

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fill gives rec the key, value and headers of its kind.
func fill(rec *kgo.Record, k Kind, r *rand.Rand, i int) {
	rec.Key = fmt.Appendf(nil, "order-%07d", r.IntN(1_000_000))
	switch k {
	case Change:
		rec.Value, rec.Headers = changeEvent(r, i), usualHeaders(r)
	case Avro:
		rec.Value, rec.Headers = avro(r), usualHeaders(r)
	case Tombstone:
		rec.Value = nil
	case NoKey:
		rec.Key, rec.Value = nil, changeEvent(r, i)
	case BinaryKey:
		rec.Key, rec.Value = binary.BigEndian.AppendUint64([]byte{0xff, 0x00}, r.Uint64()), avro(r)
	case Headers:
		rec.Value, rec.Headers = changeEvent(r, i), oddHeaders(r)
	case Empty:
		rec.Key, rec.Value = []byte{}, []byte{}
	case Hostile:
		rec.Value, rec.Headers = changeEvent(r, i), hostileHeaders(r)
	case Large:
		rec.Value = random(r, largeMin+r.IntN(largeMax-largeMin))
	case Unfit:
		rec.Value = random(r, unfitBytes)
	}
}

var operations = []string{"c", "u", "u", "u", "d"}

// changeEvent is a Debezium-like envelope of 200 to 2,000 bytes.
func changeEvent(r *rand.Rand, i int) []byte {
	b := fmt.Appendf(make([]byte, 0, 512),
		`{"op":%q,"ts_ms":%d,"source":{"db":"shop","table":"orders","lsn":%d},"after":{"id":%d,"status":%q,"total":%d.%02d,"note":"`,
		operations[r.IntN(len(operations))], 1_790_000_000_000+i, r.Uint64N(1<<40), i,
		[]string{"NEW", "PAID", "SENT"}[r.IntN(3)], r.IntN(10_000), r.IntN(100))
	for n := r.IntN(12) * r.IntN(12); n > 0; n-- {
		b = append(b, words[r.IntN(len(words))]...)
	}
	return append(b, `"}}`...)
}

var words = []string{"leave ", "at ", "the ", "door, ", "größer ", "bitte ", "klingeln ", "日本語 ", "gift ", "fragile "}

// avro is a schema registry's header and 40 to 400 bytes of binary.
func avro(r *rand.Rand) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(1+r.IntN(200)))
	return append(b, random(r, 40+r.IntN(360))...)
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

func header(name, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: name, Value: []byte(value)}
}

func usualHeaders(r *rand.Rand) []kgo.RecordHeader {
	hs := []kgo.RecordHeader{header("content-type", "application/json"), header("source", "shop-api")}
	if r.IntN(4) == 0 {
		hs = append(hs, header("traceparent", fmt.Sprintf("00-%016x%016x-%016x-01", r.Uint64()|1, r.Uint64(), r.Uint64()|1)))
	}
	return hs
}

func oddHeaders(r *rand.Rand) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		header("retry", "1"), header("retry", "2"), header("retry", "2"),
		{Key: "signature", Value: random(r, 32)},
		{Key: "nothing", Value: nil},
		header("", "no name"),
		header("empty", ""),
		header("größe", "übergroß"),
	}
}

func hostileHeaders(r *rand.Rand) []kgo.RecordHeader {
	switch r.IntN(5) {
	case 0: // a producer that would like to forge our attributes
		return []kgo.RecordHeader{
			header("idempotency_key", "v1/msk/orders/-/0/0/0"), header("kafka_offset", "0"),
			header("kafka_header_x", "1"), header("mskbridge_reason", "refused"),
			header("googclient_schemaencoding", "JSON"), header("goog", "1"),
		}
	case 1:
		return []kgo.RecordHeader{header("long", strings.Repeat("v", 2000)), header("short", "v")}
	case 2:
		hs := make([]kgo.RecordHeader, 150)
		for i := range hs {
			hs[i] = header(fmt.Sprintf("h%03d", i), "v")
		}
		return hs
	case 3:
		return []kgo.RecordHeader{header("bad\xff", "v"), header("latin", "gr\xfc\xdfe"), header("zero", "a\x00b")}
	default:
		return []kgo.RecordHeader{header(strings.Repeat("n", 300), "v"), header(strings.Repeat("ü", 127), "v")}
	}
}
