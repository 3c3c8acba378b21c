package sink

import "time"

// State is the one word about a route.
type State string

// The states of a route.
const (
	Running  State = "running"
	Retrying State = "retrying" // at least one batch failed and is tried again
	Held     State = "held"     // publishing stopped, probed slowly, see Reason
)

// Snapshot is the state of a Sink at one moment.
type Snapshot struct {
	Routes []RouteSnapshot // in the order in which they were given
	// OldestWait is when the wait that is longest without one last showed life;
	// zero when nothing waits. Waits show life each 5 s.
	OldestWait time.Time
}

// RouteSnapshot is the state of one route. Counters run since New. Texts carry
// nothing of a record.
type RouteSnapshot struct {
	Topic, Destination string

	State       State
	Reason      string    // why it is held and what to do; "" when it is not
	Since       time.Time // of State; zero for a route that never was but running
	LastError   string    // also of one that is over
	LastErrorAt time.Time

	Published int64 // messages that the destination acknowledged
	Parked    int64 // messages that the dead-letter topic acknowledged
	Stored    int64 // values that the store took
	Requests  int64 // RPCs begun, probes and parking included
	Retries   int64 // RPCs that repeat one that failed
	Bytes     int64 // of acknowledged requests
	InFlight  int64 // RPCs going on
}

// Snapshot returns the state of all routes. It is cheap and safe at any time.
func (s *Sink) Snapshot() Snapshot {
	routes := s.routes.Load().list
	snap := Snapshot{OldestWait: s.waits.oldest(), Routes: make([]RouteSnapshot, 0, len(routes))}
	for _, r := range routes {
		snap.Routes = append(snap.Routes, r.snapshot())
	}
	return snap
}

func (r *route) snapshot() RouteSnapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := RouteSnapshot{
		Topic: r.Topic, Destination: r.Destination,
		State: Running, Reason: r.reason, Since: r.since, LastError: r.lastError, LastErrorAt: r.lastAt,
		Published: r.published.Load(), Parked: r.parked.Load(), Stored: r.stored.Load(), Requests: r.requests.Load(),
		Retries: r.retries.Load(), Bytes: r.bytes.Load(), InFlight: r.inFlight.Load(),
	}
	switch {
	case r.current.Load() != nil:
		s.State = Held
	case r.retrying > 0:
		s.State, s.Since = Retrying, r.retriedAt
	}
	return s
}
