package history

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// Envelope says what the value is inside the envelopes of a topic.
type Envelope string

// The values that a route's field value has.
const (
	EnvelopeBytes Envelope = "bytes" // base64
	EnvelopeJSON  Envelope = "json"  // a string that holds JSON; what is not JSON is parked as undecodable
)

// envelope is an envelope as encoding/json reads it. NULL is nil.
type envelope struct {
	Key         string       `json:"idempotency_key"`
	Cluster     string       `json:"kafka_cluster"`
	Topic       string       `json:"kafka_topic"`
	TopicID     string       `json:"kafka_topic_id"`
	Partition   int32        `json:"kafka_partition"`
	Offset      int64        `json:"kafka_offset"`
	LeaderEpoch int32        `json:"kafka_leader_epoch"`
	Timestamp   *time.Time   `json:"kafka_timestamp"`
	Date        string       `json:"kafka_date"`
	RecordKey   *[]byte      `json:"kafka_key"`
	Tombstone   bool         `json:"is_tombstone"`
	Gap         int64        `json:"kafka_offset_gap"`
	Headers     []headerJSON `json:"headers"`
	Value       *string      `json:"value"`
}

// unwrap returns the sums of a message whose topic has envelopes. Attributes are
// held against them. Parked values are not wrapped, but for those that Pub/Sub
// itself refused.
func (h *History) unwrap(form Envelope, c *claim, m *fakepubsub.Message) (sums, error) {
	raw := sumsOfMessage(m)
	switch reason := string(m.Attribute("mskbridge_reason")); {
	case reason == "undecodable" && (form != EnvelopeJSON || utf8.Valid(m.Data) && json.Valid(m.Data)):
		return raw, errors.New("a value was parked that can be decoded")
	case reason != "" && reason != "refused":
		return raw, nil
	}
	var e envelope
	d := json.NewDecoder(bytes.NewReader(m.Data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return raw, fmt.Errorf("not an envelope: %w", err)
	}
	if e.Key != string(m.Key()) || e.Cluster != h.o.Cluster || e.Topic != c.p.Topic || e.Partition != c.p.Partition || e.Offset != c.o ||
		e.LeaderEpoch != c.epoch || e.TopicID != base64.RawURLEncoding.EncodeToString(c.p.ID[:]) && c.p.ID != [16]byte{} {
		return raw, errors.New("the envelope names another record than the key")
	}
	if err := e.agrees(m); err != nil {
		return raw, err
	}
	s := sums{headers: sumOfHeaders(e.Headers)}
	if e.RecordKey != nil {
		s.key = sum(notNil(*e.RecordKey))
	}
	if s.key != raw.key || !raw.partial && s.headers != raw.headers {
		return raw, errors.New("key or headers of the envelope are not those of the attributes")
	}
	switch {
	case e.Tombstone != (e.Value == nil):
		return raw, errors.New("is_tombstone and value disagree")
	case e.Value == nil:
	case form == EnvelopeJSON:
		if !json.Valid([]byte(*e.Value)) {
			return raw, errors.New("the value is not JSON")
		}
		s.value = sum([]byte(*e.Value))
	default:
		value, err := base64.StdEncoding.DecodeString(*e.Value)
		if err != nil {
			return raw, fmt.Errorf("the value is not base64: %w", err)
		}
		s.value = sum(notNil(value))
	}
	return s, nil
}

// agrees holds the attributes that are no part of a content against the envelope.
func (e *envelope) agrees(m *fakepubsub.Message) error {
	stamp, date := "", "1970-01-01"
	if e.Timestamp != nil {
		stamp = strconv.FormatInt(e.Timestamp.UnixMilli(), 10)
		if year := e.Timestamp.Year(); year >= 2011 && year < 2038 {
			date = e.Timestamp.UTC().Format(time.DateOnly)
		}
	}
	gap := ""
	if e.Gap > 0 {
		gap = strconv.FormatInt(e.Gap, 10)
	}
	tombstone := m.Attribute("kafka_tombstone") != nil
	if stamp != string(m.Attribute("kafka_timestamp_ms")) || date != e.Date || gap != string(m.Attribute("kafka_offset_gap")) || tombstone != e.Tombstone {
		return errors.New("time, date, gap or is_tombstone of the envelope are not those of the attributes")
	}
	return nil
}
