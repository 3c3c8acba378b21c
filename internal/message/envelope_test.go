package message_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/bqjson"
	"github.com/mskbridge/mskbridge/internal/message"
)

// members is an envelope as encoding/json reads it. NULL is nil.
type members struct {
	Key         string         `json:"idempotency_key"`
	Cluster     string         `json:"kafka_cluster"`
	Topic       string         `json:"kafka_topic"`
	TopicID     string         `json:"kafka_topic_id"`
	Partition   int32          `json:"kafka_partition"`
	Offset      int64          `json:"kafka_offset"`
	LeaderEpoch int32          `json:"kafka_leader_epoch"`
	Timestamp   *string        `json:"kafka_timestamp"`
	Date        string         `json:"kafka_date"`
	RecordKey   *[]byte        `json:"kafka_key"`
	IsTombstone bool           `json:"is_tombstone"`
	Gap         int64          `json:"kafka_offset_gap"`
	Headers     []headerStruct `json:"headers"`
	Value       *string        `json:"value"`
}

// headerStruct is one element of the column headers.
type headerStruct struct {
	Name       *string `json:"name"`
	NameBase64 *[]byte `json:"name_base64"`
	Value      *string `json:"value"`
	Base64     *[]byte `json:"base64"`
}

// readEnvelope reads data strictly: every member once, known and in order.
func readEnvelope(t testing.TB, data []byte) members {
	t.Helper()
	var m members
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil || d.More() {
		t.Fatalf("%v: not an envelope: %.300q", err, data)
	}
	d = json.NewDecoder(bytes.NewReader(data))
	var names []string
	for depth, name := 0, true; d.More() || depth > 1; {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		switch delim, _ := token.(json.Delim); {
		case delim == '{' || delim == '[':
			depth++
			name = depth == 1
		case delim != 0:
			depth--
			name = depth == 1
		case depth == 1 && name:
			names, name = append(names, token.(string)), false
		case depth == 1:
			name = true
		}
	}
	want := strings.Fields("idempotency_key kafka_cluster kafka_topic kafka_topic_id kafka_partition kafka_offset kafka_leader_epoch kafka_timestamp " +
		"kafka_date kafka_key is_tombstone kafka_offset_gap headers value")
	if !reflect.DeepEqual(names, want) {
		t.Fatalf("members %v, want %v", names, want)
	}
	return m
}

// members is the envelope of rec but for its value, the slow and obvious way.
func (r route) members(rec *message.Record) members {
	id := r.id(rec)
	want := members{
		Key: id.String(), Cluster: testCluster, Topic: testTopic, TopicID: strings.Split(id.String(), "/")[3],
		Partition: r.partition, Offset: rec.Offset, LeaderEpoch: rec.LeaderEpoch, Date: "1970-01-01",
		IsTombstone: rec.Value == nil, Gap: max(rec.Gap, 0), Headers: []headerStruct{},
	}
	if at := time.UnixMilli(rec.TimestampMs).UTC(); rec.TimestampMs != -1 && at.Year() >= 1 && at.Year() <= 9999 {
		text := at.Format("2006-01-02T15:04:05.000000Z")
		want.Timestamp = &text
		if at.Year() >= 2011 && at.Year() < 2038 {
			want.Date = at.Format(time.DateOnly)
		}
	}
	if rec.Key != nil {
		want.RecordKey = &rec.Key
	}
	for _, h := range r.kept(rec.Headers) {
		var s headerStruct
		if name := []byte(h.Name); text(h.Name) {
			s.Name = &h.Name
		} else {
			s.NameBase64 = &name
		}
		if value := string(h.Value); h.Value != nil && text(value) {
			s.Value = &value
		} else if h.Value != nil {
			s.Base64 = &h.Value
		}
		want.Headers = append(want.Headers, s)
	}
	return want
}

// checkEnvelope encodes rec on a route of format f and holds the message, as the
// official types read it, against the record: attributes as of a raw route, each
// member of the envelope, and what a claim and a parked message would be.
func checkEnvelope(t testing.TB, f message.Format, r route, e *message.Encoder, p *message.Partition, rec *message.Record) {
	t.Helper()
	n, refusal := e.Measure(p, rec)
	field := e.AppendTo(nil)
	if len(field) != n {
		t.Fatalf("measured %d bytes, wrote %d", n, len(field))
	}
	m := decode(t, field)[0]
	attributes := r.reference(rec)
	want := r.members(rec)
	if refusal != nil {
		if want := f == message.EnvelopeJSON && rec.Value != nil && bqjson.Refusal(rec.Value) != ""; !want || refusal.Reason != message.Undecodable {
			t.Fatalf("value %.200q refused: %v", rec.Value, refusal)
		}
		checkRefused(t, field, rec, want, refusal)
		return
	}
	want.Value = valueMember(t, f, rec.Value)
	if got := readEnvelope(t, m.Data); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", mustJSON(t, got), mustJSON(t, want))
	}
	attributes.Data = m.Data
	if !proto.Equal(m, attributes) || !bytes.Equal(field, marshal(t, attributes)[len(e.Head()):]) {
		t.Errorf("got %v\nwant %v", m, attributes)
	}
	checkLegal(t, m)
}

// checkRefused holds that a refused record parks as its value, and claims as an
// envelope without it.
func checkRefused(t testing.TB, field []byte, rec *message.Record, want members, refusal *message.Refusal) {
	t.Helper()
	parked := decode(t, message.Park(field, refusal, testDestination))[0]
	if !bytes.Equal(parked.Data, rec.Value) || parked.Attributes[message.AttrParkedReason] != string(refusal.Reason) {
		t.Errorf("parked as %.200q with %v", parked.Data, parked.Attributes)
	}
	if len(parked.ProtoReflect().GetUnknown()) > 0 {
		t.Error("a parked message has a field that is none of Pub/Sub's")
	}
	claim := decode(t, message.Claim(field, "gs://b/k", sha256.Sum256(rec.Value)))[0]
	if got := readEnvelope(t, claim.Data); !reflect.DeepEqual(got, want) {
		t.Errorf("claim %s\nwant  %s", mustJSON(t, got), mustJSON(t, want))
	}
	if len(claim.ProtoReflect().GetUnknown()) > 0 || claim.Attributes[message.AttrValueURL] != "gs://b/k" {
		t.Errorf("claim %v", claim)
	}
}

// valueMember is the member value, nil for NULL.
func valueMember(t testing.TB, f message.Format, value []byte) *string {
	t.Helper()
	if value == nil {
		return nil
	}
	text := string(value)
	if f == message.EnvelopeBytes {
		text = base64.StdEncoding.EncodeToString(value)
	} else if bqjson.Refusal(value) != "" {
		t.Fatalf("value %.200q went through as JSON", value)
	}
	return &text
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r route) wrapped(f message.Format) (*message.Encoder, *message.Partition) {
	e, _ := r.encoder()
	e.Wrap(f)
	return e, e.Partition(r.topicID, r.partition)
}

// TestEnvelope has one Encoder of each format write everything, twice.
func TestEnvelope(t *testing.T) {
	r := route{topicID: [16]byte{1, 2, 3}, partition: 12, ordered: true, deny: []string{"big"}}
	for name, f := range map[string]message.Format{"bytes": message.EnvelopeBytes, "json": message.EnvelopeJSON} {
		t.Run(name, func(t *testing.T) {
			e, p := r.wrapped(f)
			for range 2 {
				for _, test := range records() {
					checkEnvelope(t, f, r, e, p, &test.Record)
					test.Value = []byte("{\"a\": \"\\\"\u2028\\u00e9\",\r\n\t\"b\": [1, null]}")
					checkEnvelope(t, f, r, e, p, &test.Record)
				}
			}
		})
	}
}

func TestEnvelopeTimes(t *testing.T) {
	for _, test := range []struct {
		ms         int64
		time, date string // "" for NULL
	}{
		{-1, "", "1970-01-01"},
		{-2, "1969-12-31T23:59:59.998000Z", "1970-01-01"},
		{0, "1970-01-01T00:00:00.000000Z", "1970-01-01"},
		{1293839999999, "2010-12-31T23:59:59.999000Z", "1970-01-01"},
		{1293840000000, "2011-01-01T00:00:00.000000Z", "2011-01-01"},
		{1700000000123, "2023-11-14T22:13:20.123000Z", "2023-11-14"},
		{2145916799999, "2037-12-31T23:59:59.999000Z", "2037-12-31"},
		{2145916800000, "2038-01-01T00:00:00.000000Z", "1970-01-01"},
		{-62135596800000, "0001-01-01T00:00:00.000000Z", "1970-01-01"},
		{-62135596800001, "", "1970-01-01"},
		{253402300799999, "9999-12-31T23:59:59.999000Z", "1970-01-01"},
		{253402300800000, "", "1970-01-01"},
		{math.MaxInt64, "", "1970-01-01"},
		{math.MinInt64, "", "1970-01-01"},
	} {
		e, p := route{}.wrapped(message.EnvelopeBytes)
		e.Measure(p, &message.Record{TimestampMs: test.ms})
		got := readEnvelope(t, decode(t, e.AppendTo(nil))[0].Data)
		text := ""
		if got.Timestamp != nil {
			text = *got.Timestamp
		}
		if text != test.time || got.Date != test.date {
			t.Errorf("%d: %q, date %q; want %q, %q", test.ms, text, got.Date, test.time, test.date)
		}
	}
}

// TestEnvelopeGolden pins the text of envelopes.
func TestEnvelopeGolden(t *testing.T) {
	r := route{topicID: [16]byte{0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, partition: 3}
	full := message.Record{
		Key: []byte{0xff, 1}, TimestampMs: 1700000000123, Offset: 123456, LeaderEpoch: 17, Gap: 2, Value: []byte("{\"total\":\t9.50,\n\"note\":\"\\u00fcber \\\"\u2028\"}"),
		Headers: append(header("source", "shop", "source", "a \"b\"\u2028\x01\n", "raw", "\xfe", "b\xff", "x"), message.Header{Name: "null"}),
	}
	var got strings.Builder
	for _, f := range []message.Format{message.EnvelopeBytes, message.EnvelopeJSON} {
		e, p := r.wrapped(f)
		for _, rec := range []message.Record{full, {Key: []byte{}, TimestampMs: -1, LeaderEpoch: -1}, {TimestampMs: -2, Value: []byte("null")}} {
			e.Measure(p, &rec)
			got.Write(decode(t, e.AppendTo(nil))[0].Data)
			got.WriteByte('\n')
		}
	}
	want, err := os.ReadFile("testdata/envelope.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s", got.String())
	}
}

// TestEnvelopeRequestLimit counts the encoded message: a value that a raw route
// could publish may be too large in an envelope, and parks as it was.
func TestEnvelopeRequestLimit(t *testing.T) {
	for _, test := range []struct {
		name  string
		f     message.Format
		value func(n int) []byte // has n bytes in an envelope, or one more
	}{
		{"base64", message.EnvelopeBytes, func(n int) []byte { return make([]byte, n/4*3) }},
		{"escapes", message.EnvelopeJSON, func(n int) []byte {
			return fmt.Appendf(nil, `[""%s]`, strings.Repeat(`,""`, n/5))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, p := route{}.wrapped(test.f)
			e.Measure(p, &message.Record{Value: []byte("[]")})
			around := len(e.Head()) + len(e.AppendTo(nil)) + 100
			fits, over := message.Record{Value: test.value(message.MaxRequest - around)}, message.Record{Value: test.value(message.MaxRequest + 10)}
			if n, refusal := e.Measure(p, &fits); refusal != nil || n < message.MaxRequest-around-100 {
				t.Fatalf("%d bytes: %v", n, refusal)
			}
			e.AppendTo(nil)
			n, refusal := e.Measure(p, &over)
			field := e.AppendTo(nil)
			if refusal == nil || refusal.Reason != message.TooLarge || len(over.Value) > 8_000_000 || n != len(field) {
				t.Fatalf("%d bytes: %v, measured %d, wrote %d", len(over.Value), refusal, n, len(field))
			}
			checkRefused(t, field, &over, route{}.members(&over), refusal)
		})
	}
}

// FuzzEnvelope: any record in, an envelope out that says all of it, or a refusal
// of a value that is not JSON.
func FuzzEnvelope(f *testing.F) {
	seedHeaders(f, func(program []byte) {
		f.Add(program, []byte("key"), []byte(`{"a":["\u00e9",1.5e3,null]}`), byte(3), int64(1700000000000), int64(42), int32(7), int64(0))
		f.Add(program, []byte("\xff"), []byte("\x00\xff"), byte(2), int64(-1), int64(0), int32(-1), int64(3))
		f.Add(program, []byte(""), []byte(`"\ud83d\ude00 \\ud800"`), byte(0x0f), int64(math.MaxInt64), int64(1), int32(0), int64(-1))
	})
	f.Fuzz(func(t *testing.T, program, key, value []byte, how byte, ts, offset int64, epoch int32, gap int64) {
		r := route{partition: 7, topicID: [16]byte{how}}
		if how&4 != 0 {
			r.deny = []string{"na*", "a"}
		}
		if how&1 == 0 {
			key = nil
		}
		if how&2 == 0 {
			value = nil
		}
		rec := message.Record{
			Key: key, Value: value, Headers: headersFrom(program), TimestampMs: ts,
			Offset: max(offset, 0), LeaderEpoch: max(epoch, -1), Gap: gap,
		}
		for _, format := range []message.Format{message.EnvelopeBytes, message.EnvelopeJSON} {
			e, p := r.wrapped(format)
			checkEnvelope(t, format, r, e, p, &rec)
			checkEnvelope(t, format, r, e, p, &rec) // along what the Encoder remembers
		}
	})
}
