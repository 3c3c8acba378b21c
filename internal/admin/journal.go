package admin

import (
	"sync"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// journalLength is how many events the status page shows.
const journalLength = 50

// Entry is an event as the status shows it.
type Entry struct {
	Time      time.Time  `json:"time"`
	Kind      fault.Kind `json:"event"`
	Topic     string     `json:"topic,omitempty"`
	Partition *int32     `json:"partition,omitempty"`
	First     int64      `json:"first,omitempty"`
	Next      int64      `json:"next,omitempty"`
	Size      int64      `json:"size,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Error     string     `json:"error,omitempty"`
}

// Journal counts events and remembers the last ones. The zero value is ready.
// It is safe for concurrent use, and Add never blocks on anything but memory.
type Journal struct {
	mu     sync.Mutex // guards the following
	counts map[fault.Kind]int64
	lost   map[string]int64 // offsets named by loss events, by topic
	last   [journalLength]Entry
	added  int // entries ever added; the newest is at (added-1) % journalLength
}

// Add counts e and remembers it.
func (j *Journal) Add(e fault.Event) {
	entry := Entry{
		Time: time.Now(), Kind: e.Kind, Topic: e.Topic,
		First: e.First, Next: e.Next, Size: e.Size, Reason: e.Reason,
	}
	if e.Partition >= 0 && e.Topic != "" {
		entry.Partition = &e.Partition
	}
	if e.Err != nil {
		entry.Error = e.Err.Error()
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	if j.counts == nil {
		j.counts, j.lost = map[fault.Kind]int64{}, map[string]int64{}
	}
	j.counts[e.Kind]++
	if e.Kind == fault.Loss && e.Next > e.First {
		j.lost[e.Topic] += e.Next - e.First
	}
	j.last[j.added%journalLength] = entry
	j.added++
}

// entries returns what is remembered, newest first.
func (j *Journal) entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := min(j.added, journalLength)
	out := make([]Entry, 0, n)
	for i := range n {
		out = append(out, j.last[(j.added-1-i)%journalLength])
	}
	return out
}

// count returns how many events of a kind there were.
func (j *Journal) count(k fault.Kind) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[k]
}

// lostOffsets returns how many offsets of a topic loss events named.
func (j *Journal) lostOffsets(topic string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost[topic]
}

// kinds lists every kind, so that a counter exists before its first event and
// an alert on its increase cannot miss it.
func kinds() []fault.Kind {
	return []fault.Kind{
		fault.ConfigRejected, fault.ColdStart, fault.ZeroAssignment, fault.ForeignMember,
		fault.PartitionsAdded, fault.TopicMissing, fault.TopicRecreated, fault.Loss,
		fault.Truncated, fault.PartitionBlocked, fault.AccessRefused, fault.AccessGranted, fault.RouteRetrying, fault.RouteHeld, fault.RouteReleased,
		fault.RecordParked, fault.Reauthentication, fault.Stopping,
	}
}
