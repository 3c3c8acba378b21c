package sink

import (
	"context"
	"fmt"
	"sync/atomic"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"google.golang.org/api/option"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// Route is one Kafka topic on its way to one Pub/Sub topic.
type Route struct {
	// Topic is the Kafka topic. It names the route.
	Topic string
	// Destination is the full name of the Pub/Sub topic, projects/P/topics/T.
	Destination string
	// DeadLetter is the full name of the topic for records that Destination
	// will never take. Without one such a record holds the route.
	DeadLetter string
	// HoldPoison lets such a record hold the route although there is DeadLetter.
	HoldPoison bool
	// Oversize is about records that no request can carry.
	Oversize Oversize
	// Store takes their values; StoreOversize needs it.
	Store Store
}

// parks reports whether a record that is refused for reason is parked. What an
// operator skips is noted there whatever the route does with poison.
func (r *Route) parks(reason message.Reason) bool {
	switch reason {
	case message.Skipped:
		return r.DeadLetter != ""
	case message.TooLarge:
		return r.DeadLetter != "" && r.Oversize != HoldOversize
	default:
		return r.DeadLetter != "" && !r.HoldPoison
	}
}

// Options of a Sink.
type Options struct {
	Routes []Route
	// Endpoint is the host:port of Pub/Sub, "" for the global one. Ordered
	// routes want a regional one.
	Endpoint string
	// Emulator is a host:port spoken to in plaintext and without credentials.
	// It wins over Endpoint.
	Emulator string
	// Connections is the number of gRPC connections, over which requests go in
	// turn; 0 means 4. Across clouds one connection carries one HTTP/2 window
	// per round trip.
	Connections int
	// Client has more options, which win over those made of the above.
	Client []option.ClientOption
	// Events is told what an operator should find later; nil means nobody is.
	// It is called from any goroutine and must not block.
	Events func(fault.Event)
}

// Sink publishes the batches of all routes. It is safe for concurrent use.
type Sink struct {
	client *pubsub.TopicAdminClient
	events func(fault.Event)
	routes atomic.Pointer[table]
	waits  waits
}

// New builds the connections without waiting for them: a Pub/Sub that does not
// answer is not an error. It fails when no credentials can be found; looking
// for them may take a few seconds outside Google Cloud.
func New(ctx context.Context, o Options) (*Sink, error) {
	s := &Sink{events: o.Events}
	s.routes.Store(&table{})
	if err := s.SetRoutes(o.Routes); err != nil {
		return nil, err
	}
	client, err := pubsub.NewTopicAdminClient(ctx, clientOptions(o)...)
	if err != nil {
		return nil, fmt.Errorf("building the Pub/Sub client: %w", err)
	}
	client.CallOptions.Publish = nil // the client's own retry is off: only sink retries
	s.client = client
	return s, nil
}

// Publish blocks until every message of b is acknowledged or parked. It returns
// an error only when ctx ends (or when b names no route, a defect of the
// caller), and nothing of it goes on then. After it returned, nothing reads the
// slab: where gRPC may still do so, b gives it up and its Slab is nil.
func (s *Sink) Publish(ctx context.Context, b *message.Batch) error {
	r := s.routes.Load().byName[b.Route]
	if r == nil {
		return fmt.Errorf("publishing: no route %q", b.Route)
	}
	p := newPublication(s, r, b)
	r.active.Add(1)
	err := p.run(ctx)
	p.end()
	if r.active.Add(-1) == 0 {
		// Nobody is left who could probe: what is held, if anything, shows again
		// with the next batch.
		r.release(r.current.Load())
	}
	if err != nil {
		return fmt.Errorf("publishing to %s: %w", r.Destination, err)
	}
	return nil
}

// Close closes the connections. It is not bounded by itself: the caller bounds
// it. Calls of Publish that still run fail and retry until their context ends.
func (s *Sink) Close() error {
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("closing the Pub/Sub client: %w", err)
	}
	return nil
}
