package message

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Encoder writes the records of one route as message fields of a
// PublishRequest. In steady state it allocates nothing. Not safe for
// concurrent use.
type Encoder struct {
	cluster, topic string
	ordered, byKey bool
	filter         *HeaderFilter // nil: all headers are sent
	envelope       *envelope     // nil: format Raw
	head           []byte
	topicAttribute []byte

	headers  headerPlan
	kept     []Header // those that filter keeps
	key      []byte   // encoded form of a key that is not plain text
	keyField []byte   // ordering key, encoded, where it comes from the key

	offset, timestamp number

	// Layout of the record measured last, consumed by AppendTo.
	value       []byte
	attributes  []byte // all of them, encoded
	orderingKey []byte // encoded field, of the partition or the key; empty for none
	data        int    // bytes of the data
	wraps       bool   // the data is the envelope, not the value
	size        int    // of the PubsubMessage
}

// Partition holds the wire bytes that repeat in each record of one partition.
// It belongs to the Encoder that made it.
type Partition struct {
	idPrefix    []byte // text of the ID up to the leader epoch
	id          number // idempotency_key within one epoch
	epoch       int32
	attribute   []byte // kafka_partition
	between     []byte // the two offsets of an envelope
	orderingKey []byte
}

// NewEncoder returns the Encoder of a route. Cluster is the alias of the ID,
// topic the Kafka topic, destination the full name projects/P/topics/T; all
// three were validated before. With ordered each message gets the ordering key
// <topic>/<partition>.
func NewEncoder(cluster, topic, destination string, ordered bool) *Encoder {
	return &Encoder{
		cluster:        cluster,
		topic:          topic,
		ordered:        ordered,
		head:           append(appendField(nil, tagTopic, len(destination)), destination...),
		topicAttribute: appendAttribute(nil, AttrTopic, topic),
		offset:         number{name: AttrOffset},
		timestamp:      number{name: AttrTimestamp},
	}
}

// OrderByKey gives each message the value of kafka_key as its ordering key, so
// the base64 or hash of a key that is not plain text. A null key and an empty one
// give none. Call it before the first Measure, on an Encoder that is not ordered.
func (e *Encoder) OrderByKey() { e.byKey = true }

// Filter leaves out the headers that f does not keep; nil keeps all. Call it
// before the first Measure.
func (e *Encoder) Filter(f *HeaderFilter) { e.filter = f }

// Head returns the encoded destination, field 1 of each request of the route.
// It is shared and must not be written.
func (e *Encoder) Head() []byte { return e.head }

// Partition prepares what repeats in each record of partition p of the
// incarnation topicID of the topic (zero when the broker has no topic ids).
func (e *Encoder) Partition(topicID [16]byte, p int32) *Partition {
	decimal := strconv.Itoa(int(p))
	part := &Partition{
		idPrefix:  appendIDPrefix(nil, e.cluster, e.topic, topicID, p),
		id:        number{name: AttrIdempotencyKey},
		attribute: appendAttribute(nil, AttrPartition, decimal),
	}
	if e.envelope != nil {
		part.between = part.members()
	}
	if e.ordered {
		key := e.topic + "/" + decimal
		part.orderingKey = append(appendField(nil, tagOrderingKey, len(key)), key...)
	}
	return part
}

// Measure lays r out as a message and returns the bytes that AppendTo will
// add. The Refusal is TooLarge when the message does not fit one request even
// alone, Undecodable when the value is not what the format asks for; AppendTo
// may be called nevertheless, as after Refuse. The value of r must stay as it
// is until then.
func (e *Encoder) Measure(p *Partition, r *Record) (int, *Refusal) {
	var digits, more [20]byte
	decimal := strconv.AppendInt(digits[:0], r.Offset, 10)
	keyEncoding := encodingOf(r.Key)
	headers := r.Headers
	if e.filter != nil {
		e.kept = e.filter.appendKept(e.kept[:0], headers)
		headers = e.kept
	}
	e.headers.plan(headers, MaxAttributes-e.besideHeaders(r, keyEncoding))

	b := e.attributes[:0]
	if i := e.headers.trace; i >= 0 {
		b = appendAttribute(b, AttrTraceparent, headers[i].Value)
	}
	if p.epoch != r.LeaderEpoch || p.id.before == nil {
		p.epoch = r.LeaderEpoch
		p.id.follow(appendIDEpoch(p.idPrefix, r.LeaderEpoch))
	}
	b = p.id.appendTo(b, decimal)
	b = e.headers.appendTo(b, headers)
	if r.Key != nil {
		b = e.appendKey(b, r.Key, keyEncoding)
	}
	b = e.offset.appendTo(b, decimal)
	if r.Gap > 0 {
		b = appendAttribute(b, AttrGap, strconv.AppendInt(more[:0], r.Gap, 10))
	}
	b = append(b, p.attribute...)
	if r.TimestampMs != -1 {
		b = e.timestamp.appendTo(b, strconv.AppendInt(more[:0], r.TimestampMs, 10))
	}
	if r.Value == nil {
		b = appendAttribute(b, AttrTombstone, "true")
	}
	e.attributes = append(b, e.topicAttribute...)

	e.value, e.orderingKey = r.Value, p.orderingKey
	if e.byKey && len(r.Key) > 0 {
		e.orderByKey(r.Key, keyEncoding)
	}
	e.data, e.wraps = len(r.Value), e.envelope != nil
	var refusal *Refusal
	if e.wraps {
		e.data, refusal = e.envelope.lay(p, r, decimal, headers)
	}
	n := e.measure()
	if refusal == nil && len(e.head)+n > MaxRequest {
		refusal = tooLarge(len(e.head) + n)
	}
	if refusal != nil {
		n = e.Refuse()
		raw := len(e.head) + sizeField(len(e.attributes)+len(e.orderingKey)+sizeField(e.data))
		if refusal.Reason == Undecodable && raw > MaxRequest { // no parked message could hold the value, a store can
			refusal = tooLarge(raw)
		}
	}
	return n, refusal
}

func tooLarge(size int) *Refusal {
	return &Refusal{TooLarge, fmt.Sprintf("a request with it alone has %d bytes, the limit is %d", size, MaxRequest)}
}

// measure adds up the message and returns the bytes of its field.
func (e *Encoder) measure() int {
	e.size = len(e.attributes) + len(e.orderingKey)
	if e.data > 0 {
		e.size += sizeField(e.data)
	}
	if e.envelope != nil && !e.wraps {
		e.size += sizeField(e.envelope.sizeWithNone())
	}
	return sizeField(e.size)
}

// Refuse lays the record measured last out for Park and Claim, and returns the
// bytes that AppendTo will add: whatever the format, the data is the value, and
// an envelope without it stands beside for Claim. Such a message is never
// published as it is.
func (e *Encoder) Refuse() int {
	e.data, e.wraps = len(e.value), false
	return e.measure()
}

// OrderingKey returns the ordering key of the record measured last, empty for
// none. It is valid until the next Measure or AppendTo.
func (e *Encoder) OrderingKey() []byte {
	_, key, _, _ := next(e.orderingKey)
	return key
}

// AppendTo appends the message field that Measure laid out, once.
func (e *Encoder) AppendTo(slab []byte) []byte {
	slab = appendField(slab, tagMessage, e.size)
	switch {
	case e.data == 0:
	case e.wraps:
		slab = e.envelope.appendTo(appendField(slab, tagData, e.data), e.value)
	default:
		slab = append(appendField(slab, tagData, e.data), e.value...)
	}
	slab = append(slab, e.attributes...)
	slab = append(slab, e.orderingKey...)
	if e.envelope != nil {
		if !e.wraps {
			slab = e.envelope.appendTo(appendField(slab, tagClaim, e.envelope.sizeWithNone()), nil)
		}
		if cap(e.envelope.head) > envelopeKept {
			e.envelope.head = nil
		}
	}
	// An idle route must not keep the Kafka client's buffer alive.
	e.value, e.attributes, e.orderingKey, e.size = nil, e.attributes[:0], nil, 0
	clear(e.kept)
	return slab
}

// besideHeaders counts the attributes that the record needs whatever its
// headers are. One is kept for kafka_offset_gap even where there is none: the
// gap may widen between two copies, and must not push out a header then.
func (e *Encoder) besideHeaders(r *Record, keyEncoding string) int {
	n := 5 // idempotency_key, kafka_topic, kafka_partition, kafka_offset, kafka_offset_gap
	for _, present := range [...]bool{r.TimestampMs != -1, r.Key != nil, keyEncoding != "", r.Value == nil} {
		if present {
			n++
		}
	}
	return n
}

// encodingOf returns the value of kafka_key_encoding, "" for plain text.
func encodingOf(key []byte) string {
	switch {
	case len(key) <= MaxAttributeValue && isText(key):
		return ""
	case base64.StdEncoding.EncodedLen(len(key)) <= MaxAttributeValue:
		return KeyBase64
	default:
		return KeySHA256
	}
}

// appendKey appends kafka_key and, where there is one, its encoding.
func (e *Encoder) appendKey(b, key []byte, encoding string) []byte {
	switch encoding {
	case "":
		return appendAttribute(b, AttrKey, key)
	case KeyBase64:
		e.key = base64.StdEncoding.AppendEncode(e.key[:0], key)
	default:
		sum := sha256.Sum256(key)
		e.key = hex.AppendEncode(e.key[:0], sum[:])
	}
	b = appendAttribute(b, AttrKey, e.key)
	return appendAttribute(b, AttrKeyEncoding, encoding)
}

// orderByKey makes the ordering key of what appendKey wrote.
func (e *Encoder) orderByKey(key []byte, encoding string) {
	if encoding != "" {
		key = e.key
	}
	e.keyField = append(appendField(e.keyField[:0], tagOrderingKey, len(key)), key...)
	e.orderingKey = e.keyField
}
