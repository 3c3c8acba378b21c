package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/message"
)

// partition is what a lane knows of one partition during one assignment.
type partition struct {
	ledger  *ledger
	queue   *queue             // of the partition, or the lane's shared one
	keys    map[string]*queue  // of single keys, while anything is in them; nil unless ordered by key
	prefix  *message.Partition // nil until the topic id is known
	topicID topicID
	epoch   int32 // leader epoch of the last record, -1 when not known
	// expected is the offset after the last published record, or the committed
	// one; -1 when there is neither. Offsets between it and the next record are
	// holes.
	expected int64
	next     int64     // to be read; -1 while fetching has no place to start
	placed   bool      // fetching has a place to start
	suspect  int64     // next when the log was first seen to be empty and to begin behind it
	skipTo   int64     // records below are left out
	jumped   time.Time // when fetching was sent to skipTo; zero before
}

// leastSlab is the room of a slab that is shared by keys, in bytes, however
// quiet its route.
const leastSlab = 16 << 10

// messageOverhead stands for the attributes and framing that a record gets, in
// the accounting of the gate (performance.md: message bytes + 300).
const messageOverhead = 300

// cost is what one polled record counts for at the gate of a raw route.
func cost(r *kgo.Record) int64 {
	n := int64(len(r.Key)+len(r.Value)) + messageOverhead
	for i := range r.Headers {
		n += int64(len(r.Headers[i].Key) + len(r.Headers[i].Value))
	}
	return n
}

// cost is what one polled record of the route counts for. An envelope repeats
// key and headers of the attributes, and has the value in base64 or escaped.
func (r *Route) cost(rec *kgo.Record) int64 {
	if r.Format == message.Raw {
		return cost(rec)
	}
	return 2 * cost(rec)
}

// accept packs what one poll brought of one partition.
func (l *lane) accept(id topicID, fp kgo.FetchPartition) {
	p := l.parts[fp.Partition]
	if p == nil {
		// Polled just before the partition was taken away.
		var n int64
		for _, r := range fp.Records {
			n += l.route.cost(r)
		}
		l.gate.give(l.route.Topic, n)
		return
	}
	if id != (topicID{}) && id != p.topicID {
		p.topicID, p.prefix = id, nil
	}
	if len(fp.Records) > 0 {
		l.lost(p, min(fp.LogStartOffset, fp.Records[0].Offset))
	}
	now := time.Now()
	for _, r := range fp.Records {
		if l.skips(p, r.Offset, fp.HighWatermark) {
			l.gate.give(l.route.Topic, l.route.cost(r))
		} else {
			l.pack(p, r, now)
		}
	}
	l.sample(fp.Records)
	l.stats.polled.Add(int64(len(fp.Records)))
}

// sample looks at one record of a poll for the framing of a schema registry.
func (l *lane) sample(records []*kgo.Record) {
	if len(records) == 0 || records[0].Attrs.IsControl() || records[0].Value == nil {
		return
	}
	now := message.FramingOf(records[0].Value)
	if last := l.stats.framing.Load(); last == nil || *last != now {
		l.stats.framing.Store(&now)
	}
}

// pack appends one record to the open slab of its queue. The record is garbage
// afterwards.
func (l *lane) pack(p *partition, r *kgo.Record, now time.Time) {
	to := position{next: r.Offset + 1, epoch: r.LeaderEpoch}
	n := l.route.cost(r)
	if r.Attrs.IsControl() {
		// Settled at once: commit and lag must reach the end of a transactional topic.
		p.next, p.epoch = to.next, to.epoch
		l.settled(p.ledger.begin(r.Offset, to))
		l.gate.give(l.route.Topic, n)
		return
	}
	l.fill(p, r)
	f := l.lay(p, now, nil)
	f.cost += n
	f.cover(p.ledger, r.Offset, to)
	// A full slab has nothing to wait for, not even for the record after it.
	if f.batch.Refusal != nil || f.batch.Len() == message.MaxMessages {
		f.queue.seal()
	}
}

// lay appends l.record to the open slab of its queue. A record that cannot be
// published, because of why or of what the encoder says, gets one of its own.
func (l *lane) lay(p *partition, now time.Time, why *message.Refusal) *flight {
	if p.prefix == nil {
		p.prefix = l.encoder.Partition(p.topicID, p.ledger.partition)
	}
	size, refusal := l.encoder.Measure(p.prefix, &l.record)
	if why != nil {
		size, refusal = l.encoder.Refuse(), why
	}
	q := l.queueOf(p)
	if q.open != nil && (refusal != nil || q.open.batch.Size()+size > l.sizes.SlabBytes) {
		q.seal()
	}
	f := q.open
	if f == nil {
		f = &flight{queue: q, oldest: now, batch: &message.Batch{Route: l.route.Topic, Head: l.encoder.Head(), Refusal: refusal}}
		f.place = l.open.PushBack(f)
		if q.open = f; q.siblings != nil {
			f.batch.Slab = l.pool.get(size)
			l.charge(f, keyOverhead)
			l.keyed.enlist(q)
		} else {
			f.batch.Slab = l.pool.get(max(size, l.usual, leastSlab))
		}
	}
	if q.siblings != nil {
		l.charge(f, keyedOverhead)
	}
	f.batch.Slab = l.pool.grow(f.batch.Slab, size)
	f.batch.Starts = append(f.batch.Starts, int32(len(f.batch.Slab)))
	f.batch.Slab = l.encoder.AppendTo(f.batch.Slab)
	return f
}

// fill translates r into the encoder's record, reusing its header slice.
func (l *lane) fill(p *partition, r *kgo.Record) {
	m := &l.record
	m.Key, m.Value, m.Offset, m.LeaderEpoch = r.Key, r.Value, r.Offset, r.LeaderEpoch
	m.TimestampMs = r.Timestamp.UnixMilli()
	m.Headers = m.Headers[:0]
	for i := range r.Headers {
		m.Headers = append(m.Headers, message.Header{Name: r.Headers[i].Key, Value: r.Headers[i].Value})
	}
	m.Gap = 0
	if p.expected >= 0 {
		m.Gap = max(r.Offset-p.expected, 0)
	}
	p.expected, p.next, p.epoch = r.Offset+1, r.Offset+1, r.LeaderEpoch
}
