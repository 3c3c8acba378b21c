package history

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxKept is how many violations of each invariant are kept; the rest are counted.
const maxKept = 5

// Options of a History.
type Options struct {
	Seed        uint64              // named in violations
	Cluster     string              // alias in the idempotency keys
	Group       string              // commits of other groups are ignored
	Routes      map[string]string   // full name of a destination -> Kafka topic
	DeadLetters []string            // full names of dead-letter topics
	Envelopes   map[string]Envelope // Kafka topics whose messages hold envelopes
	OnViolation func(Violation)
}

// Partition is one partition of one incarnation of a topic.
type Partition struct {
	Topic     string
	ID        [16]byte
	Partition int32
}

func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Violation is one broken invariant.
type Violation struct {
	Invariant string // I1 ... I9, or EVENTS
	Seed      uint64
	Event     int // number of the event at which it was seen
	What      string
	Recent    []string // the last events, oldest first
}

func (v Violation) Error() string {
	return fmt.Sprintf("%s broken (seed %d, event %d): %s", v.Invariant, v.Seed, v.Event, v.What)
}

// History is the recorder and the judge. Use New.
type History struct {
	o Options

	mu         sync.Mutex // guards what follows
	logs       map[Partition]*log
	newest     map[string][16]byte // topic -> id of its newest incarnation
	owners     map[int32]map[place]string
	incidents  []incident
	ring       ring
	violations []Violation
	kept       map[string]int // by invariant
	broken     int            // violations in all
}

// New returns an empty history.
func New(o Options) *History {
	return &History{
		o: o, logs: map[Partition]*log{}, newest: map[string][16]byte{},
		owners: map[int32]map[place]string{}, kept: map[string]int{},
	}
}

// log returns the log of p, which begins empty.
func (h *History) log(p Partition) *log {
	l := h.logs[p]
	if l == nil {
		l = &log{p: p, front: map[string]int64{}, committed: -1}
		h.logs[p] = l
	}
	return l
}

// breach notes a violation. The caller holds mu.
func (h *History) breach(invariant, format string, args ...any) {
	h.broken++
	if h.kept[invariant] >= maxKept {
		return
	}
	h.kept[invariant]++
	v := Violation{
		Invariant: invariant, Seed: h.o.Seed, Event: h.ring.next,
		What: fmt.Sprintf(format, args...), Recent: h.ring.lines(),
	}
	h.violations = append(h.violations, v)
	if h.o.OnViolation != nil {
		h.o.OnViolation(v)
	}
}

// Violations returns the first violations, and how many there were in all.
func (h *History) Violations() ([]Violation, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.violations), h.broken
}

// event is one line of the history, formatted only when it is shown.
type event struct {
	at          time.Time
	kind        string
	p           Partition
	first, next int64
	who         string
}

// ring keeps the last events.
type ring struct {
	next   int // number of the next event
	events [200]event
}

func (r *ring) add(kind string, p Partition, first, next int64, who string) {
	r.events[r.next%len(r.events)] = event{time.Now(), kind, p, first, next, who}
	r.next++
}

func (r *ring) lines() []string {
	var out []string
	for i := max(0, r.next-len(r.events)); i < r.next; i++ {
		e := r.events[i%len(r.events)]
		out = append(out, fmt.Sprintf("%d %s %s %v [%d,%d) %s", i, e.at.Format("15:04:05.000"), e.kind, e.p, e.first, e.next, e.who))
	}
	return out
}
