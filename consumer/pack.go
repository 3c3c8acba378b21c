package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/message"
)

// partition is what a lane knows of one partition during one assignment.
type partition struct {
	ledger  *ledger
	queue   *queue
	prefix  *message.Partition // nil until the topic id is known
	topicID [16]byte
	// expected is the offset after the last published record, or the committed
	// one; -1 when there is neither. Offsets between it and the next record are
	// holes, except those below the log start, which are loss.
	expected int64
	placed   bool // fetching has a place to start
}

// messageOverhead stands for the attributes and framing that a record gets, in
// the accounting of the gate (performance.md: message bytes + 300).
const messageOverhead = 300

// cost is what one polled record counts for at the gate.
func cost(r *kgo.Record) int64 {
	n := int64(len(r.Key)+len(r.Value)) + messageOverhead
	for i := range r.Headers {
		n += int64(len(r.Headers[i].Key) + len(r.Headers[i].Value))
	}
	return n
}

// accept packs what one poll brought of one partition.
func (l *lane) accept(topicID [16]byte, fp kgo.FetchPartition) {
	p := l.parts[fp.Partition]
	if p == nil {
		// Polled just before the partition was taken away.
		var n int64
		for _, r := range fp.Records {
			n += cost(r)
		}
		l.gate.give(l.route.Topic, n)
		return
	}
	if topicID != ([16]byte{}) && topicID != p.topicID {
		p.topicID, p.prefix = topicID, nil
	}
	if p.prefix == nil {
		p.prefix = l.encoder.Partition(p.topicID, fp.Partition)
	}
	now := time.Now()
	for _, r := range fp.Records {
		l.pack(p, r, fp.LogStartOffset, now)
	}
	l.stats.polled.Add(int64(len(fp.Records)))
}

// pack appends one record to the open slab of its queue. The record is garbage
// afterwards.
func (l *lane) pack(p *partition, r *kgo.Record, logStart int64, now time.Time) {
	to := position{next: r.Offset + 1, epoch: r.LeaderEpoch}
	n := cost(r)
	if r.Attrs.IsControl() {
		// Settled at once: commit and lag must reach the end of a transactional topic.
		l.settled(p.ledger.begin(r.Offset, to))
		l.gate.give(l.route.Topic, n)
		return
	}
	l.fill(p, r, logStart)
	size, refusal := l.encoder.Measure(p.prefix, &l.record)
	q := p.queue
	if q.open != nil && (refusal != nil || q.open.batch.Size()+size > l.sizes.SlabBytes) {
		q.seal()
	}
	if q.open == nil {
		q.open = &flight{queue: q, oldest: now, batch: &message.Batch{
			Route: l.route.Topic, Head: l.encoder.Head(), Slab: l.pool.get(max(size, l.usual)), Refusal: refusal,
		}}
	}
	f := q.open
	f.batch.Slab = l.pool.grow(f.batch.Slab, size)
	f.batch.Starts = append(f.batch.Starts, int32(len(f.batch.Slab)))
	f.batch.Slab = l.encoder.AppendTo(f.batch.Slab)
	f.cost += n
	f.cover(p.ledger, r.Offset, to)
	// A full slab has nothing to wait for, not even for the record after it.
	if refusal != nil || f.batch.Len() == message.MaxMessages {
		q.seal()
	}
}

// fill translates r into the encoder's record, reusing its header slice.
func (l *lane) fill(p *partition, r *kgo.Record, logStart int64) {
	m := &l.record
	m.Key, m.Value, m.Offset, m.LeaderEpoch = r.Key, r.Value, r.Offset, r.LeaderEpoch
	m.TimestampMs = r.Timestamp.UnixMilli()
	m.Headers = m.Headers[:0]
	for i := range r.Headers {
		m.Headers = append(m.Headers, message.Header{Name: r.Headers[i].Key, Value: r.Headers[i].Value})
	}
	m.Gap = 0
	if p.expected >= 0 {
		m.Gap = max(r.Offset-max(p.expected, logStart), 0)
	}
	p.expected = r.Offset + 1
}
