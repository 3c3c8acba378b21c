// Package admin shows what the bridge does over HTTP: health for Cloud Run,
// lag and state for people and autoscalers, metrics for Prometheus.
//
// It only reads. Every endpoint answers GET and HEAD and nothing else, none
// changes state, and none shows a payload, a key, a header or a secret. What it
// shows comes from two functions that the caller hands in, so that it works the
// same for the bridge, the demo and a test.
package admin

import (
	"context"
	"slices"
	"time"
)

// State is what the bridge knows about itself at one moment. The function that
// returns it must be safe for concurrent use and must not block.
type State struct {
	Version string `json:"version"`
	Group   string `json:"group"`
	Cluster string `json:"cluster"`

	// Started is when the process began. A process without a broker counts as
	// started after StartupGrace from here.
	Started time.Time `json:"started"`
	// BrokerSeen is true once any broker has answered.
	BrokerSeen bool `json:"broker_seen"`
	// Joined is true while the consumer is a member of its group.
	Joined bool `json:"joined"`
	// Reasons says, one clause each, why the process as a whole is not ready.
	// Held routes are not repeated here.
	Reasons []string `json:"reasons,omitempty"`

	// RoutesFile is where the routes come from, unless they come from the environment.
	RoutesFile RoutesFile `json:"routes_file,omitzero"`

	// Loops has the time at which each loop last woke.
	Loops map[string]time.Time `json:"loops"`

	Window int64 `json:"window_bytes"`  // budget between poll and acknowledgement
	InHand int64 `json:"in_hand_bytes"` // of the budget, in use now

	Routes []Route `json:"routes"`
}

// RoutesFile is what is known of the routes file.
type RoutesFile struct {
	Version string    `json:"version"` // of the content in force
	Since   time.Time `json:"since"`   // when it came into force
	// Rejected is why the file as it is now is not in force. That does not make
	// the process unready.
	Rejected string `json:"rejected,omitempty"`
}

// RouteState is the one word about a route.
type RouteState string

// The states of a route.
const (
	Running  RouteState = "running"
	Held     RouteState = "held"     // publishing stopped, position kept, probed slowly
	Retrying RouteState = "retrying" // a batch failed and is tried again
)

// Route is the state of one route. Counters run since the process started and
// cover what this process did.
type Route struct {
	Topic       string     `json:"topic"`
	Destination string     `json:"destination"`
	State       RouteState `json:"state"`
	Reason      string     `json:"reason,omitempty"`     // why it is not running, or what its lag waits for
	Since       time.Time  `json:"since,omitzero"`       // of State
	LastError   string     `json:"last_error,omitempty"` // also of one that is over
	Framing     string     `json:"framing,omitempty"`    // of a schema registry, around the latest value looked at

	Partitions int     `json:"partitions"`  // assigned to this process
	LagRecords int64   `json:"lag_records"` // of the assigned partitions
	LagSeconds float64 `json:"lag_seconds"` // age of the oldest record that is not committed

	InFlightRequests int       `json:"in_flight_requests"`
	InFlightBytes    int64     `json:"in_flight_bytes"`
	OldestOpen       time.Time `json:"oldest_open,omitzero"` // when the oldest open span was polled

	Records        int64 `json:"records"`         // polled
	Acknowledged   int64 `json:"acknowledged"`    // records that Pub/Sub took
	Parked         int64 `json:"parked"`          // records on the dead-letter topic
	Stored         int64 `json:"stored"`          // values that no request could carry
	Requests       int64 `json:"requests"`        // Publish requests sent, probes and parking included
	Retries        int64 `json:"retries"`         // Publish requests tried again
	PublishedBytes int64 `json:"published_bytes"` // request bytes acknowledged
	Fetched        int64 `json:"fetched"`         // records that brokers sent, those fetched again after a pause included
	Paused         bool  `json:"paused"`          // fetching rests: the route has its share in hand
	Pauses         int64 `json:"pauses"`
}

// Lag is how far the whole group is behind, whichever process holds what.
type Lag struct {
	Group   string     `json:"group"`
	Records int64      `json:"records"`
	Seconds float64    `json:"seconds"` // of the route that is furthest behind
	Routes  []RouteLag `json:"routes"`
}

// RouteLag is Lag of one route.
type RouteLag struct {
	Topic   string     `json:"topic"`
	Records int64      `json:"records"`
	Seconds float64    `json:"seconds"`
	State   RouteState `json:"state"`
	Reason  string     `json:"reason,omitempty"`
}

// LagFunc asks for Lag. It may ask a broker, hence may fail, and must end
// with its context. It is called concurrently and is expected to cache.
type LagFunc func(context.Context) (Lag, error)

const (
	// StartupGrace is how long /startup waits for a first broker. After it the
	// container counts as started, and /ready says what is missing: an outage
	// of Kafka must not turn into a restart loop.
	StartupGrace = 20 * time.Second
	// LiveLimit is the age of a loop's stamp above which the process is dead.
	// Loops wake at least each 5 s, so 60 s are twelve missed wakes.
	LiveLimit = 60 * time.Second
)

// startup reports whether the container has started, and why not.
func (s *State) startup(now time.Time) []string {
	if s.BrokerSeen || now.Sub(s.Started) >= StartupGrace {
		return nil
	}
	return []string{"no broker has answered yet"}
}

// dead names the loops that have not woken within LiveLimit, sorted.
func (s *State) dead(now time.Time) []string {
	var dead []string
	for name, last := range s.Loops {
		if age := now.Sub(last); age > LiveLimit {
			dead = append(dead, name+": last woke "+age.Round(time.Second).String()+" ago")
		}
	}
	slices.Sort(dead)
	return dead
}

// unready says why the bridge is not fully at work; empty means ready.
func (s *State) unready() []string {
	reasons := slices.Clone(s.Reasons)
	if !s.Joined {
		reasons = append(reasons, "not joined the group "+s.Group)
	}
	for i := range s.Routes {
		if r := &s.Routes[i]; r.State == Held {
			reasons = append(reasons, r.Topic+" held: "+r.Reason)
		}
	}
	return reasons
}

// oldestWake returns the age of the stalest stamp, 0 without loops.
func (s *State) oldestWake(now time.Time) time.Duration {
	var oldest time.Duration
	for _, last := range s.Loops {
		oldest = max(oldest, now.Sub(last))
	}
	return oldest
}

// openFor returns the age of the oldest open span, 0 when nothing is open.
func (r *Route) openFor(now time.Time) time.Duration {
	if r.OldestOpen.IsZero() {
		return 0
	}
	return max(0, now.Sub(r.OldestOpen))
}
