package duckdb

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// The world: partitions of a topic that is recreated once, with an unclean
// election in each, copies that come again and late, and a clock.
const (
	topic      = "orders"
	partitions = 4
	keys       = 60
	perHour    = 6 // records of one partition
)

var (
	genesis = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	hours   = 48 * time.Hour
	longest = 6*24*time.Hour + 20*time.Hour // from a publish to its landing
)

// record is one Kafka record and when it was first published.
type record struct {
	id        message.ID
	kafka     message.Record
	published time.Time
}

// landing is a delivery and when it is in the raw table.
type landing struct {
	Delivery
	at time.Time
}

type world struct {
	spec     warehouse.Spec
	rng      *rand.Rand
	records  []record
	landings []landing // by time
	foreign  int       // landings that are no records
	recreate time.Time // of the topic
	messages int
}

func newWorld(tb testing.TB, seed uint64, format warehouse.Format) *world {
	tb.Helper()
	w := &world{
		spec: warehouse.Spec{Dataset: "kafka", Topic: topic, Format: format, RetentionDays: warehouse.DefaultRetentionDays},
		rng:  rand.New(rand.NewPCG(seed, 6)),
	}
	w.recreate = genesis.Add(hours * 6 / 10)
	encoder := message.NewEncoder("msk", topic, "projects/p/topics/"+topic, true)
	encoder.Wrap(map[warehouse.Format]message.Format{
		warehouse.Raw: message.Raw, warehouse.EnvelopeBytes: message.EnvelopeBytes, warehouse.EnvelopeJSON: message.EnvelopeJSON,
	}[format])
	for incarnation := range 2 {
		id := [16]byte{0: byte(100 + 100*incarnation), 15: byte(seed)} // the older one sorts first
		from, to := genesis, w.recreate
		if incarnation == 1 {
			from, to = w.recreate.Add(10*time.Minute), genesis.Add(hours)
		}
		for p := range partitions {
			w.partition(tb, encoder, id, int32(p), from, to)
		}
	}
	w.strangers()
	slices.SortStableFunc(w.landings, func(a, b landing) int { return a.at.Compare(b.at) })
	return w
}

// partition appends the records of one partition of one incarnation.
func (w *world) partition(tb testing.TB, e *message.Encoder, id [16]byte, p int32, from, to time.Time) {
	tb.Helper()
	part := e.Partition(id, p)
	next, epoch, gap := int64(w.rng.IntN(3)), int32(p), int64(0)
	election := to.Add(-4 * time.Hour)
	for at := from; at.Before(to); at = at.Add(time.Duration(w.rng.Int64N(int64(2 * time.Hour / perHour)))) {
		if w.chance(12) {
			gap = 1 + w.rng.Int64N(3)
			next += gap
		}
		if at.After(election) && epoch == p {
			next, epoch, gap = max(next-20, 0), epoch+1, 0 // unclean: the log was cut, offsets come again
		}
		r := record{
			id:        message.ID{Cluster: "msk", Topic: topic, TopicID: id, Partition: p, LeaderEpoch: epoch, Offset: next},
			kafka:     w.payload(p, next, at),
			published: at.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond),
		}
		r.kafka.LeaderEpoch, r.kafka.Gap = epoch, gap
		w.records = append(w.records, r)
		w.deliver(tb, e, part, r, to)
		next, gap = next+1, 0
	}
}

// payload makes up a record. Its key belongs to the partition.
func (w *world) payload(p int32, next int64, at time.Time) message.Record {
	n := w.rng.IntN(keys/partitions)*partitions + int(p)
	r := message.Record{
		Offset:      next,
		Key:         fmt.Appendf(nil, "key-%d", n),
		Value:       fmt.Appendf(nil, `{"n":%d}`, w.rng.IntN(1e6)),
		TimestampMs: at.Add(-time.Duration(w.rng.Int64N(int64(2 * time.Hour)))).UnixMilli(),
		Headers:     []message.Header{{Name: "source", Value: []byte("shop")}, {Name: "trace", Value: []byte{0xff, 1}}},
	}
	switch n % 10 {
	case 8:
		r.Key = []byte{0xff, 0x00, byte(n)} // base64
	case 9:
		r.Key = slices.Repeat([]byte{byte('a' + n%26)}, 1100+n) // digest
	}
	switch w.rng.IntN(60) {
	case 0:
		r.TimestampMs = -1
	case 1:
		r.TimestampMs = 99_999_999_999_999_999 // beyond what a TIMESTAMP holds
	case 2:
		r.TimestampMs = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	case 3:
		r.TimestampMs = at.AddDate(0, -14, 0).UnixMilli()
	case 4, 5, 6:
		r.Key = nil
	case 7:
		r.Key = []byte{}
	}
	if w.chance(8) {
		r.Value = nil
	}
	return r
}

func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

// deliver publishes a record once or again, each once or again delivered.
func (w *world) deliver(tb testing.TB, e *message.Encoder, part *message.Partition, r record, until time.Time) {
	tb.Helper()
	times := []time.Time{r.published}
	if w.chance(6) { // a crash, a rebalance, or a retry whose answer was lost
		again := r.published.Add(time.Duration(w.rng.Int64N(int64(30 * time.Hour))))
		if again.Before(until.Add(2 * time.Minute)) {
			times = append(times, again)
		}
	}
	for i, published := range times {
		kafka := r.kafka
		if i > 0 && w.chance(3) {
			kafka.Gap = 0 // seen from a committed offset, the hole lies before it
		}
		e.Measure(part, &kafka)
		d, err := Decode(e.AppendTo(nil))
		if err != nil {
			tb.Fatal(err)
		}
		w.messages++
		d.MessageID, d.PublishTime = fmt.Sprint(w.messages), published
		copies := 1
		if w.chance(8) {
			copies = 2 // Pub/Sub delivers at least once
		}
		for range copies {
			w.landings = append(w.landings, landing{d, published.Add(w.delay())})
		}
	}
}

// delay is from a publish to the landing: mostly seconds, seldom days.
func (w *world) delay() time.Duration {
	switch n := w.rng.IntN(100); {
	case n < 2:
		return longest - time.Duration(w.rng.Int64N(int64(20*time.Hour)))
	case n < 4:
		return time.Duration(w.rng.Int64N(int64(longest)))
	case n < 12:
		return time.Duration(w.rng.Int64N(int64(2 * time.Hour)))
	default:
		return time.Duration(w.rng.Int64N(int64(3 * time.Minute)))
	}
}

// strangers adds messages that nobody may take for records of the topic.
func (w *world) strangers() {
	good := "v1/msk/" + topic + "/-/0/-1/7"
	base := map[string]string{"kafka_topic": topic, "kafka_partition": "0", "kafka_offset": "7"}
	for i := range 12 {
		attributes := map[string]string{"idempotency_key": good}
		for k, v := range base {
			attributes[k] = v
		}
		switch i % 6 {
		case 0:
			attributes = map[string]string{"hello": "world"}
		case 1:
			attributes["kafka_offset"] = "8" // does not agree with the key
		case 2:
			attributes["kafka_topic"], attributes["idempotency_key"] = "others", "v1/msk/others/-/0/-1/7"
		case 3:
			delete(attributes, "kafka_partition")
		case 4:
			attributes["kafka_offset"], attributes["kafka_timestamp_ms"] = "seven", "never"
		case 5:
			attributes["idempotency_key"] = good + "/8"
		}
		d := Delivery{MessageID: fmt.Sprintf("foreign-%d", i), PublishTime: genesis.Add(hours * time.Duration(i) / 12), Data: []byte(`{"idempotency_key":"?"}`), Attributes: attributes}
		w.landings = append(w.landings, landing{d, d.PublishTime.Add(time.Minute)})
		w.foreign++
	}
}

// beats orders two versions of a key: incarnation, partition, epoch, offset.
func (w *world) beats(a, b record) bool {
	return cmp.Or(
		cmp.Compare(w.incarnation(a), w.incarnation(b)),
		cmp.Compare(a.id.Partition, b.id.Partition),
		cmp.Compare(a.id.LeaderEpoch, b.id.LeaderEpoch),
		cmp.Compare(a.id.Offset, b.id.Offset)) > 0
}

func (w *world) incarnation(r record) int {
	if r.published.Before(w.recreate.Add(5 * time.Minute)) {
		return 0
	}
	return 1
}

// keyOf is the key as the warehouse has it, nil for none.
func (w *world) keyOf(r record) []byte {
	if w.spec.Format == warehouse.Raw && len(r.kafka.Key) > message.MaxAttributeValue {
		sum := sha256.Sum256(r.kafka.Key)
		return sum[:]
	}
	return r.kafka.Key
}
