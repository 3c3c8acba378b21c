// Package sim puts a fake Kafka and a fake Pub/Sub on a virtual network inside
// one bubble of testing/synctest, so that hours of faults pass in moments.
//
//	synctest.Test(t, func(t *testing.T) {
//		w := sim.New(t, sim.Options{Brokers: 3, Destinations: []string{"orders"}})
//		w.Kafka.Create("orders", 3, nil)
//		p := w.Process() // one incarnation of a bridge: its own breakable links
//		consumer.Options{Brokers: w.Kafka.Brokers(), Dial: p.Kafka.Dial, ...}
//		sink.Options{Emulator: sim.Endpoint, Client: p.PubSubOptions(), ...}
//		...
//		p.Kill()         // as kill -9 looks from outside
//	})
//
// Bubbles need no cleaning up beyond the end of the test: New registers it, and
// synctest itself fails a test that leaves a goroutine.
//
// A trap: in a normal build franz-go waits on a sync.RWMutex in its commit and
// rebalance paths, which a bubble does not count as blocked, so any test with a
// group may hang there now and then. Build with -tags synctests, which turns
// franz-go's locks into channels; tests with a group carry that build tag.
package sim

import (
	"context"
	"net"
	"testing"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"github.com/twmb/franz-go/pkg/kfake"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/link"
)

// Endpoint is the address of Pub/Sub on the virtual network. It is an IP
// address because a bubble must not ask a name server.
const Endpoint = "127.0.0.1:8085"

// Project owns the destinations.
const Project = "sim"

// Options of a World.
type Options struct {
	Brokers      int      // 0: one
	Destinations []string // ids of Pub/Sub topics of Project
	Stores       []fakepubsub.Store
	Kfake        []kfake.Opt
}

// World is both ends of a bridge.
type World struct {
	Kafka  *fakekafka.Cluster
	PubSub *fakepubsub.Server
	net    *kfake.VirtualNetwork
}

// New starts a world that lives until the test ends. Call it in a bubble.
func New(t testing.TB, o Options) *World {
	t.Helper()
	w := &World{net: &kfake.VirtualNetwork{}}
	var err error
	w.Kafka, err = fakekafka.Start(fakekafka.Options{Brokers: o.Brokers, Network: w.net, Kfake: o.Kfake})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kafka.Close)
	w.PubSub = fakepubsub.New(fakepubsub.Options{Stores: o.Stores})
	for _, id := range o.Destinations {
		if err := w.PubSub.CreateTopics(Destination(id)); err != nil {
			t.Fatal(err)
		}
	}
	// The network makes itself on the first Listen, which was Kafka's.
	l, err := w.net.Listen("tcp", Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.PubSub.Serve(l) }()
	t.Cleanup(func() {
		w.PubSub.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return w
}

// Destination is the full name of a Pub/Sub topic of Project.
func Destination(id string) string { return "projects/" + Project + "/topics/" + id }

// Process is how one incarnation of a bridge reaches the world.
type Process struct{ Kafka, PubSub *link.Link }

// Process returns fresh, healthy links to both sides.
func (w *World) Process() *Process {
	return &Process{Kafka: link.New(link.Distant(w.net.DialContext)), PubSub: link.New(w.net.DialContext)}
}

// Kill cuts the process off for good. Closing its clients afterwards has no
// effect on the world, which is what a killed process looks like from outside.
func (p *Process) Kill() {
	p.Kafka.Kill()
	p.PubSub.Kill()
}

// PubSubOptions makes a Google client speak to the world's Pub/Sub.
func (p *Process) PubSubOptions() []option.ClientOption { return PubSubOptions(p.PubSub.Dial) }

// PubSubOptions makes a Google client speak to Endpoint over dial, in plaintext
// and without credentials.
func PubSubOptions(dial link.Dial) []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint("passthrough:///" + Endpoint),
		option.WithoutAuthentication(),
		option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithGRPCDialOption(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		})),
	}
}

// TopicClient returns Google's generated client of the world's Pub/Sub, closed
// when the test ends.
func (w *World) TopicClient(t testing.TB, p *Process) *pubsub.TopicAdminClient {
	t.Helper()
	c, err := pubsub.NewTopicAdminClient(t.Context(), p.PubSubOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
