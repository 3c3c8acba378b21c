package message

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mskbridge/mskbridge/internal/bqjson"
)

// Format says what the data of a message is. The attributes are the same in all.
type Format uint8

const (
	// Raw is the record's value, byte for byte.
	Raw Format = iota
	// EnvelopeBytes is a JSON object that has a member for each column of the raw
	// table, in their order, the value in base64. A BigQuery subscription with
	// use_table_schema reads it.
	EnvelopeBytes
	// EnvelopeJSON is the same for values that are JSON: the value is a string
	// that holds it, since Pub/Sub writes a JSON column from a string. The wire
	// type of such a column in the Storage Write API is a string (managedwriter's
	// adapt/protoconversion.go), and objects sent to one were seen to land never.
	// So JSON's null stays apart from the NULL of a tombstone, too.
	EnvelopeJSON
)

const (
	// envelopeWithNone ends an envelope without a value. NULL is null everywhere;
	// absence would say the same.
	envelopeWithNone = "null}"
	// envelopeKept is the room, in bytes, that is kept for the members of the next
	// record; above, which takes large keys or headers, it is given back.
	envelopeKept = 64 << 10
)

// envelope lays out the data of formats other than Raw.
type envelope struct {
	form valueForm
	head []byte // of the record laid out last, up to its value
}

// valueForm is how the value of a record, which is not null, stands in an envelope.
type valueForm interface {
	// measure returns the bytes that appendTo writes, or why the value has no
	// such form.
	measure(value []byte) (int, *Refusal)
	appendTo(b, value []byte) []byte
}

// Wrap gives the data of each message another format than Raw. Call it before
// the first Partition.
func (e *Encoder) Wrap(f Format) {
	e.envelope = map[Format]*envelope{EnvelopeBytes: {form: base64Value{}}, EnvelopeJSON: {form: jsonValue{}}}[f]
}

// members is what stands between the two offsets of each envelope of the
// partition. No part of an ID needs an escape.
func (p *Partition) members() []byte {
	id := strings.Split(string(p.idPrefix), "/")
	return fmt.Appendf(nil, `","%s":%q,"%s":%q,"%s":%q,"%s":%s,"%s":`,
		ColCluster, id[1], AttrTopic, id[2], ColTopicID, id[3], AttrPartition, id[4], AttrOffset)
}

// lay writes everything but the value, and returns the size of the whole. It is
// an envelope without its value when there is a Refusal.
func (v *envelope) lay(p *Partition, r *Record, offset []byte, headers []Header) (int, *Refusal) {
	b := append(v.head[:0], `{"`+AttrIdempotencyKey+`":"`...)
	b = append(append(b, p.id.before...), offset...)
	b = append(append(b, p.between...), offset...)
	b = strconv.AppendInt(append(b, `,"`+ColLeaderEpoch+`":`...), int64(r.LeaderEpoch), 10)
	b = appendTime(b, r.TimestampMs)
	b = append(b, `,"`+AttrKey+`":`...)
	if r.Key == nil {
		b = append(b, "null"...)
	} else {
		b = base64Value{}.appendTo(b, r.Key)
	}
	b = strconv.AppendBool(append(b, `,"`+ColTombstone+`":`...), r.Value == nil)
	b = strconv.AppendInt(append(b, `,"`+AttrGap+`":`...), max(r.Gap, 0), 10)
	b = append(b, `,"`+ColHeaders+`":[`...)
	for i := range headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = headers[i].appendJSON(b)
	}
	v.head = append(b, `],"`+ColValue+`":`...)
	if r.Value == nil {
		return v.sizeWithNone(), nil
	}
	n, refusal := v.form.measure(r.Value)
	return len(v.head) + n + len("}"), refusal
}

// sizeWithNone is the size of the envelope without its value.
func (v *envelope) sizeWithNone() int { return len(v.head) + len(envelopeWithNone) }

// appendTo appends what lay laid out.
func (v *envelope) appendTo(b, value []byte) []byte {
	b = append(b, v.head...)
	if value == nil {
		return append(b, envelopeWithNone...)
	}
	return append(v.form.appendTo(b, value), '}')
}

// appendTime appends the timestamp of a record and its date. BigQuery has the
// years 1 to 9999.
func appendTime(b []byte, ms int64) []byte {
	const first, next = -62_135_596_800_000, 253_402_300_800_000
	const date = `,"` + ColDate + `":"`
	b = append(b, `,"`+ColTimestamp+`":`...)
	if ms == -1 || ms < first || ms >= next {
		return append(b, "null"+date+DateFloor+`"`...)
	}
	from, at := len(b)+1, time.UnixMilli(ms).UTC()
	b = at.AppendFormat(append(b, '"'), time.RFC3339)
	part := at.Nanosecond() / 1e6
	b = append(b[:len(b)-len("Z")], '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
	b = append(b, `000Z"`+date...)
	if day := b[from : from+len(DateFloor)]; string(day) >= DateFirst && string(day) < DateNext {
		return append(append(b, day...), '"')
	}
	return append(b, DateFloor+`"`...)
}

// base64Value is the value in base64, standard alphabet and padded, which is how
// JSON carries BYTES.
type base64Value struct{}

func (base64Value) measure(value []byte) (int, *Refusal) {
	return base64.StdEncoding.EncodedLen(len(value)) + len(`""`), nil
}

func (base64Value) appendTo(b, value []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), value), '"')
}

// jsonValue is a value that is JSON, as a string that holds it.
type jsonValue struct{}

func (jsonValue) measure(value []byte) (int, *Refusal) {
	if why := bqjson.Refusal(value); why != "" {
		return 0, &Refusal{Undecodable, "the value is not JSON that BigQuery takes: " + why}
	}
	n := len(`""`) + len(value)
	for _, c := range []byte("\"\\\n\r\t") { // no other byte of JSON needs an escape
		n += bytes.Count(value, []byte{c})
	}
	return n, nil
}

func (jsonValue) appendTo(b, value []byte) []byte { return appendQuoted(b, value) }
