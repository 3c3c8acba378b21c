package history

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Produced: Kafka acknowledged r, a record that readers of committed records
// must see, in the incarnation id of its topic. r's offset must be set; its
// leader epoch is not looked at, since producers do not learn it.
func (h *History) Produced(id [16]byte, r *kgo.Record) { h.produce(id, r, produced) }

// Aborted: r was written, but its transaction aborted.
func (h *History) Aborted(id [16]byte, r *kgo.Record) { h.produce(id, r, produced|invisible) }

func (h *History) produce(id [16]byte, r *kgo.Record, f flags) {
	c := sumsOfRecord(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	p := Partition{r.Topic, id, r.Partition}
	h.newest[r.Topic] = id
	h.ring.add("PROD", p, r.Offset, r.Offset+1, "")
	l := h.log(p)
	s := l.at(r.Offset)
	if s.has(produced) {
		h.breach("I5", "%v offset %d was produced twice: record a truncation or a new topic id before", p, r.Offset)
		return
	}
	s.flags |= f
	stored := s.stored > 0 || s.has(parked)
	switch {
	case stored && s.has(invisible):
		h.breach("I5", "%v offset %d was stored although its transaction aborted", p, r.Offset)
	case stored:
		h.compare(p, r.Offset, s, c)
	default:
		s.value, s.key, s.headers = c.value, c.key, c.headers
		s.flags |= headed
	}
	if s.visible() && s.has(passed) && !s.has(exempt) {
		h.breach("I2", "%v offset %d had no acknowledgement when a commit passed it", p, r.Offset)
	}
	if s.visible() && s.has(skipped) {
		h.breach("I8", "%v offset %d was skipped by a later record of its ordering key", p, r.Offset)
	}
}

// Read: r was read from the log. Producers do not learn the leader epoch of a
// record; here it is held against the one in the key.
func (h *History) Read(p Partition, r *kgo.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.log(p).at(r.Offset); s.known && s.epoch != r.LeaderEpoch {
		h.breach("I6", "%v offset %d: key with leader epoch %d, but the log has %d", p, r.Offset, s.epoch, r.LeaderEpoch)
	}
}

// compare judges whether content c belongs to what is known of s, and completes
// the headers where a message that dropped some came first.
func (h *History) compare(p Partition, o int64, s *slot, c sums) {
	if s.value != c.value || s.key != c.key {
		h.breach("I7", "%v offset %d: value or key differs between produced and stored, or between two copies", p, o)
	}
	if c.partial {
		return
	}
	if !s.has(headed) {
		s.headers = c.headers
		s.flags |= headed
	}
	if s.headers != c.headers {
		h.breach("I7", "%v offset %d: headers differ between produced and stored, or between two copies", p, o)
	}
}

// Exempt: the records of [first, next) need not be stored, because compaction
// took them or the operator skipped them. Copies are still welcome.
func (h *History) Exempt(p Partition, first, next int64) { h.mark("EXEMPT", p, first, next, exempt) }

// Trimmed: retention or DeleteRecords took [first, next). The bridge must
// report those it has not stored.
func (h *History) Trimmed(p Partition, first, next int64) {
	h.mark("TRIM", p, first, next, exempt|trimmed)
}

// TrimmedUnseen: the same, before the group had a position in the topic. The
// bridge begins at what is there, and may or may not report the rest.
func (h *History) TrimmedUnseen(p Partition, first, next int64) {
	h.mark("TRIM", p, first, next, exempt|trimmed|lossTold)
}

// LossReported: the bridge reported that it lost [first, next).
func (h *History) LossReported(p Partition, first, next int64) {
	h.mark("LOSS", p, first, next, lossTold)
}

// ParkReported: the bridge reported that it parked the record at offset o.
func (h *History) ParkReported(p Partition, o int64) { h.mark("PARK", p, o, o+1, reported) }

func (h *History) mark(kind string, p Partition, first, next int64, f flags) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring.add(kind, p, first, next, "")
	l := h.log(p)
	for o := first; o < next; o++ {
		l.at(o).flags |= f
	}
}

// Truncated: an unclean election took everything from offset first on. New
// records may take the offsets, under a new leader epoch.
func (h *History) Truncated(p Partition, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring.add("TRUNC", p, first, first, "")
	l := h.log(p)
	if first >= int64(len(l.slots)) {
		return
	}
	l.ended = append(l.ended, ended{first, slices.Clone(l.slots[first:])})
	l.slots = l.slots[:first:first]
	l.scanned = min(l.scanned, first)
	l.committed = min(l.committed, first)
	for k, o := range l.front {
		l.front[k] = min(o, first)
	}
}
