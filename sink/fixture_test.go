package sink

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	destination = "projects/p/topics/orders"
	deadLetter  = "projects/p/topics/dead"
)

// bench is a sink with one route "orders" before a fake Pub/Sub, both in memory
// so that they fit into a synctest bubble.
type bench struct {
	*Sink
	server *fakepubsub.Server
	stored fakepubsub.Messages

	mu     sync.Mutex // guards events
	events []fault.Event
}

func newBench(t *testing.T, r Route) *bench {
	t.Helper()
	b := &bench{}
	b.server = fakepubsub.New(fakepubsub.Options{Stores: []fakepubsub.Store{&b.stored}})
	l := bufconn.Listen(1 << 20)
	go func() { _ = b.server.Serve(l) }()
	t.Cleanup(b.server.Close)
	if err := b.server.CreateTopics(destination, deadLetter); err != nil {
		t.Fatal(err)
	}
	if r.Topic == "" {
		r.Topic, r.Destination = "orders", destination
	}
	s, err := New(t.Context(), Options{
		Routes: []Route{r}, Emulator: "passthrough:///memory", Connections: 2,
		Client: []option.ClientOption{option.WithGRPCDialOption(grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))},
		Events: func(e fault.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Sink = s
	t.Cleanup(func() { _ = s.Close() })
	return b
}

// parking is the usual route.
func parking() Route {
	return Route{Topic: "orders", Destination: destination, DeadLetter: deadLetter}
}

// always answers code to every request.
func always(c codes.Code) fakepubsub.Script { return fakepubsub.Always(fakepubsub.Fault{Code: c}) }

// publish starts Publish and returns its result.
func (b *bench) publish(ctx context.Context, batch *message.Batch) <-chan error {
	result := make(chan error, 1)
	go func() { result <- b.Publish(ctx, batch) }()
	return result
}

// kinds returns the kinds of all events so far, and the reason of the last.
func (b *bench) kinds() (kinds []fault.Kind, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		kinds = append(kinds, e.Kind)
		reason = e.Reason
	}
	return kinds, reason
}

func (b *bench) route() RouteSnapshot { return b.Snapshot().Routes[0] }

// requests returns how many requests each topic got.
func (b *bench) requests() int { return int(b.route().Requests) }

// offsets returns the stored offsets of a topic, in the order of storing.
func (b *bench) offsets(topic string) []int {
	var all []int
	for _, k := range b.stored.Of(topic) {
		n, _ := strconv.Atoi(k.Attributes[message.AttrOffset])
		all = append(all, n)
	}
	return all
}

// newBatch makes a batch of the offsets from first to before next. valueOf may
// be nil.
func newBatch(ordered bool, first, next int, valueOf func(offset int) string) *message.Batch {
	e := message.NewEncoder("msk", "orders", destination, ordered)
	p := e.Partition([16]byte{1}, 3)
	b := &message.Batch{Route: "orders", Head: e.Head()}
	for offset := first; offset < next; offset++ {
		value := fmt.Sprint("value ", offset)
		if valueOf != nil {
			value = valueOf(offset)
		}
		r := message.Record{Key: []byte("k"), Value: []byte(value), TimestampMs: 1, Offset: int64(offset), LeaderEpoch: 5}
		_, refusal := e.Measure(p, &r)
		b.Starts = append(b.Starts, int32(len(b.Slab)))
		b.Slab = e.AppendTo(b.Slab)
		b.Refusal = refusal
	}
	b.Spans = []message.Span{{Partition: 3, First: int64(first), Last: int64(next - 1), Next: int64(next), LeaderEpoch: 5, Records: next - first}}
	return b
}

// poison refuses requests with one of the given offsets.
func poison(offsets ...int) fakepubsub.Script {
	bad := map[string]bool{}
	for _, o := range offsets {
		bad[strconv.Itoa(o)] = true
	}
	return fakepubsub.Refuse(func(m *fakepubsub.Message) bool { return bad[string(m.Attribute(message.AttrOffset))] })
}

// run returns the integers from first to before next.
func run(first, next int) []int {
	var all []int
	for i := first; i < next; i++ {
		all = append(all, i)
	}
	return all
}

// mustEnd receives from result within d of virtual time.
func mustEnd(t *testing.T, result <-chan error, d time.Duration) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(d):
		t.Fatalf("Publish did not return within %v", d)
		return nil
	}
}
