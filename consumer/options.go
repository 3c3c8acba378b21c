package consumer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// Publisher delivers batches. It is declared here since the lane is its only
// caller; package sink implements it.
type Publisher interface {
	// Publish blocks until every message of b is acknowledged or parked, and
	// returns an error only when ctx ends. After it returned, nothing reads the
	// slab of b: where the transport still might, Slab is nil. It sets b stalled
	// before it waits for anything that may take long. Many calls run at once; for one ordered
	// partition or key, one.
	Publish(ctx context.Context, b *message.Batch) error
}

// Ordering says what order a route keeps.
type Ordering uint8

const (
	// OrderingNone mixes the partitions of a route in its batches, several of
	// which are in flight at once.
	OrderingNone Ordering = iota
	// OrderingPartition keeps the order of each partition: one batch of it in
	// flight, with the partition as its ordering key.
	OrderingPartition
	// OrderingKey keeps the order of the records of one key in a partition: one
	// batch of it in flight, of this key alone, with the value of kafka_key as its
	// ordering key. Records without a key, or with an empty one, have no order.
	OrderingKey
)

// Route is one Kafka topic on its way to one Pub/Sub topic.
type Route struct {
	// Topic is the Kafka topic. It names the route.
	Topic string
	// Destination is the full name of the Pub/Sub topic, projects/P/topics/T.
	Destination string
	Ordering    Ordering
	// Format says what the data of its messages is.
	Format message.Format
	// Start is where the route begins while the group knows nothing of its topic.
	Start Start
	// Skip are ranges that an operator gave up; they need a dead-letter topic.
	Skip []Skip
	// Headers chooses which headers are sent; nil sends all.
	Headers *message.HeaderFilter
}

// Sizes bounds memory and pace. All are derived from the memory limit and the
// profile by package config.
type Sizes struct {
	// Window (W) bounds the bytes between poll and acknowledgement.
	Window int64
	// FetchMaxBytes bounds one fetch response of one broker, compressed.
	FetchMaxBytes int32
	// FetchMaxPartition bounds the part of one partition in it.
	FetchMaxPartition int32
	// SlabBytes is the request size at which a slab is sealed.
	SlabBytes int
	// InFlight (K) is the number of requests in flight of an unordered route.
	InFlight int
	// Linger is how long a partial slab waits for more when nothing is in flight.
	Linger time.Duration
	// PollEvery is the least time between two polls that brought records.
	PollEvery time.Duration
}

// Options configures a Consumer. Every field but Dial, Auth, Events and
// ClientLog is required; New says which is missing.
type Options struct {
	// Brokers are the bootstrap addresses, host:port.
	Brokers []string
	// Group is the consumer group.
	Group string
	// Cluster is the alias that stands in every identity.
	Cluster string
	Routes  []Route
	// SessionTimeout is how long the group waits for a silent member.
	SessionTimeout time.Duration
	// Dial opens every connection to a broker, TLS included; nil for plain TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Auth says who we are to brokers; the zero value is nobody.
	Auth  Auth
	Sizes Sizes
	// Events is told what happens. It is called from any goroutine and must
	// not block.
	Events func(fault.Event)
	// ClientLog gets the Kafka client's own lines; nil discards them.
	ClientLog *slog.Logger
}

// check says what is missing.
func (o *Options) check() error {
	switch {
	case len(o.Brokers) == 0:
		return errors.New("no brokers")
	case o.Group == "", o.Cluster == "":
		return errors.New("no group or cluster alias")
	case len(o.Routes) == 0:
		return errors.New("no routes")
	case o.Sizes.Window <= 0 || o.Sizes.SlabBytes <= 0 || o.Sizes.InFlight <= 0 || o.Sizes.FetchMaxBytes <= 0 || o.Sizes.FetchMaxPartition <= 0:
		return errors.New("window, slab, fetch sizes and requests in flight must be positive")
	case o.SessionTimeout <= 0:
		return errors.New("no session timeout")
	default:
		return nil
	}
}

// Limits of time. The sum of the shutdown steps, 8 s, leaves room under the
// watchdog's nine seconds; Cloud Run kills after ten.
const (
	drainStop    = 5500 * time.Millisecond
	leaveStop    = 2 * time.Second
	closeStop    = 500 * time.Millisecond
	drainRevoke  = 2 * time.Second
	drainQuiet   = time.Second // give up when no acknowledgement came for so long
	commitRevoke = time.Second
	commitEvery  = time.Second
	wakeEvery    = 5 * time.Second // every loop wakes and stamps at least so often
	oldestWait   = time.Second     // a partial slab is sent at this age
)
