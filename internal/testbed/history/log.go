package history

// flags of a record.
type flags uint16

const (
	produced  flags = 1 << iota // PROD seen
	invisible                   // aborted: must never be stored
	exempt                      // need not be stored: taken by Kafka, or skipped by the operator
	trimmed                     // taken by retention: the bridge must report it if it was not stored
	acked                       // stored, and the answer was good
	parked                      // on the dead-letter topic
	parkAcked                   // and the answer was good
	passed                      // a commit passed it unacknowledged, before it was known
	skipped                     // an ordered message skipped it, before it was known
	reported                    // the bridge reported its park
	lossTold                    // the bridge reported its loss
	spoiled                     // the last copy's answer is not known to be good
	headed                      // the sum of the headers is set
)

// slot is what is known of one offset. 40 bytes.
type slot struct {
	value, key, headers uint64
	epoch               int32  // of the idempotency key
	stored              uint16 // copies
	excess              uint16 // copies that only an incident explains
	flags               flags
	known               bool // a message said value, key and epoch
}

func (s *slot) has(f flags) bool { return s.flags&f != 0 }

// visible reports whether a reader of committed records must see it.
func (s *slot) visible() bool { return s.has(produced) && !s.has(invisible) }

// settled reports whether a commit may pass it.
func (s *slot) settled() bool { return s.has(acked | parkAcked | exempt | invisible) }

// log is what is known of one partition.
type log struct {
	p         Partition
	slots     []slot
	ended     []ended
	scanned   int64            // commits were judged up to here
	committed int64            // accepted, -1 for none
	front     map[string]int64 // ordering key -> next offset after the last one stored first
}

// ended is a tail that a truncation took: its records are no longer there, but
// copies of them may still be stored.
type ended struct {
	first int64
	slots []slot
}

// at returns the slot of offset o, making it if needed.
func (l *log) at(o int64) *slot {
	if n := o + 1 - int64(len(l.slots)); n > 0 {
		l.slots = append(l.slots, make([]slot, n)...)
	}
	return &l.slots[o]
}

// far reports whether offset o lies so far beyond all that is known that making
// its slot would only cost memory.
func (l *log) far(o int64) bool { return o > int64(len(l.slots))+maxBeyond }

// of returns the slot of the record with that offset and leader epoch, an ended
// one where the epoch says so.
func (l *log) of(o int64, epoch int32) *slot {
	for i := len(l.ended) - 1; i >= 0; i-- {
		e := &l.ended[i]
		if j := o - e.first; j >= 0 && j < int64(len(e.slots)) && e.slots[j].known && e.slots[j].epoch == epoch {
			return &e.slots[j]
		}
	}
	return l.at(o)
}
