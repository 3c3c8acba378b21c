package consumer

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/message"
)

// published is one record as it stood in a batch.
type published struct {
	key       string // idempotency_key
	topic     string
	partition int32
	offset    int64
	gap       int64 // -1 when the attribute is not there
	ordering  string
	value     string
}

// request is one call of Publish.
type request struct {
	batch   *message.Batch
	at      time.Time
	records []published // decoded at the call: the slab may be reused after it
	wire    []string    // its messages as protobuf has them, decoded likewise
	answer  chan error  // written by the test, read by Publish
	ended   chan error  // what Publish returned
}

func (r *request) ack() { r.answer <- nil }

// cancelled reports whether Publish returned because its context ended.
func (r *request) cancelled() bool {
	select {
	case err := <-r.ended:
		r.ended <- err
		return err != nil
	default:
		return false
	}
}

// scriptedPublisher answers when the test or its script says so.
type scriptedPublisher struct {
	// script, when set, answers a request after the delay it returns; a
	// negative one leaves the request to the test.
	script func(*request) time.Duration
	// acked, when set, is told of a request just before Publish returns nil.
	acked func(*request)

	mu  sync.Mutex // guards all
	all []*request
}

func (p *scriptedPublisher) Publish(ctx context.Context, b *message.Batch) (err error) {
	r := &request{batch: b, at: time.Now(), records: decode(b), wire: wire(b), answer: make(chan error, 1), ended: make(chan error, 1)}
	defer func() {
		if err == nil && p.acked != nil {
			p.acked(r)
		}
		r.ended <- err
	}()
	p.mu.Lock()
	p.all = append(p.all, r)
	p.mu.Unlock()
	var due <-chan time.Time
	if p.script != nil {
		if delay := p.script(r); delay >= 0 {
			timer := time.NewTimer(delay)
			defer timer.Stop()
			due = timer.C
		}
	}
	select {
	case err := <-r.answer:
		return err
	case <-due:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// requests returns all calls so far, in order.
func (p *scriptedPublisher) requests() []*request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*request(nil), p.all...)
}

// open returns the calls that have not returned, by partition and offset: those
// sent at the same moment arrive in any order.
func (p *scriptedPublisher) open() []*request {
	var open []*request
	for _, r := range p.requests() {
		if len(r.ended) == 0 {
			open = append(open, r)
		}
	}
	slices.SortFunc(open, func(a, b *request) int {
		x, y := a.batch.Spans[0], b.batch.Spans[0]
		return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.First, y.First))
	})
	return open
}

// decode reads the messages of a batch from its wire bytes.
func decode(b *message.Batch) []published {
	records := make([]published, b.Len())
	for i := range records {
		field := b.Part(i, i+1)
		text := func(name string) string { v, _ := message.Attribute(field, name); return v }
		number := func(name string, none int64) int64 {
			v, ok := message.Attribute(field, name)
			if !ok {
				return none
			}
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				panic(err)
			}
			return n
		}
		body := field[1:]
		_, n := binary.Uvarint(body)
		body = body[n:]
		records[i] = published{
			key: text("idempotency_key"), topic: text("kafka_topic"),
			partition: int32(number("kafka_partition", -1)),
			offset:    number("kafka_offset", -1), gap: number("kafka_offset_gap", -1),
			value: wireField(body, 1), ordering: wireField(body, 5),
		}
	}
	return records
}

// wireField returns the first field of that number in an encoded PubsubMessage,
// all of whose fields are length-delimited.
func wireField(b []byte, number byte) string {
	for len(b) > 0 {
		length, n := binary.Uvarint(b[1:])
		end := 1 + n + int(length)
		if b[0] == number<<3|2 {
			return string(b[1+n : end])
		}
		b = b[end:]
	}
	return ""
}

func offsetsOf(records []published) []int64 {
	offsets := make([]int64, len(records))
	for i, r := range records {
		offsets[i] = r.offset
	}
	return offsets
}

func TestDecodeReadsWhatTheEncoderWrites(t *testing.T) {
	e := message.NewEncoder("test", "orders", "projects/p/topics/orders", true)
	p := e.Partition([16]byte{1}, 3)
	b := &message.Batch{}
	for i, value := range []string{"first", "", "third"} {
		e.Measure(p, &message.Record{Value: []byte(value), Offset: int64(40 + i), LeaderEpoch: 2, TimestampMs: 1, Gap: int64(i)})
		b.Starts = append(b.Starts, int32(len(b.Slab)))
		b.Slab = e.AppendTo(b.Slab)
	}
	got := decode(b)
	want := published{
		key: "v1/test/orders/AQAAAAAAAAAAAAAAAAAAAA/3/2/42", topic: "orders", partition: 3, offset: 42, gap: 2,
		ordering: "orders/3", value: "third",
	}
	if len(got) != 3 || got[2] != want || got[0].gap != -1 || got[0].value != "first" || got[1].value != "" {
		t.Errorf("decoded %+v, want the last to be %+v", got, want)
	}
}

// wire copies the messages of a batch.
func wire(b *message.Batch) []string {
	all := make([]string, b.Len())
	for i := range all {
		all[i] = string(b.Part(i, i+1))
	}
	return all
}
