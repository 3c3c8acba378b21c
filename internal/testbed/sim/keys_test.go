//go:build synctests

package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/history"
	"github.com/mskbridge/mskbridge/internal/testbed/sim"
	"github.com/mskbridge/mskbridge/sink"
)

// TestOrderByKey: the bridge keeps the order of each key (I8), and everything
// else that the judge looks at, while Pub/Sub fails in every way, members come,
// leave and are killed, and the route is held for a while.
func TestOrderByKey(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { orderByKey(t, seed) })
		})
	}
}

func orderByKey(t *testing.T, seed uint64) {
	orders, dead := sim.Destination("orders"), sim.Destination("dead")
	h := history.New(history.Options{
		Seed: seed, Cluster: "msk", Group: "g",
		Routes: map[string]string{orders: "orders"}, DeadLetters: []string{dead},
	})
	w := sim.New(t, sim.Options{Brokers: 3, Destinations: []string{"orders", "dead"}, Stores: []fakepubsub.Store{h}})
	w.Kafka.Observe(h)
	w.PubSub.Script(orders, fakepubsub.Join(
		fakepubsub.Refuse(func(m *fakepubsub.Message) bool { return len(m.Data) > 0 && m.Data[0] == '!' }),
		fakepubsub.Chance(seed, 0.1, fakepubsub.Fault{Code: codes.Unavailable}),
		fakepubsub.Chance(seed+1, 0.1, fakepubsub.Fault{Code: codes.Internal, Stored: true}),
		fakepubsub.Chance(seed+2, 0.02, fakepubsub.Fault{Code: codes.PermissionDenied}),
		fakepubsub.Chance(seed+3, 0.05, fakepubsub.Fault{Ids: -1}),
		fakepubsub.Delay(func(r *fakepubsub.Request) time.Duration {
			return time.Duration(fakepubsub.Draw(seed+4, r) * float64(time.Second))
		}),
	))
	if err := w.Kafka.Create("orders", 3, nil); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 9))
	produce := func(n int) {
		p, err := w.Kafka.Producer()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		records := make([]*kgo.Record, n)
		for i := range records {
			r := &kgo.Record{Topic: "orders", Value: fmt.Append(nil, "value ", i)}
			switch k := random.IntN(30); {
			case k == 0: // no key
			case k == 1:
				r.Key = []byte{}
			case k == 2:
				r.Key = []byte{0xff, byte(random.IntN(3))}
			default:
				r.Key = fmt.Append(nil, "key ", k)
			}
			if random.IntN(100) == 0 {
				r.Value[0] = '!'
			}
			r.Partition = int32(random.IntN(3)) // also one key in several partitions
			records[i] = r
		}
		if err := p.Produce(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			h.Produced(w.Kafka.TopicID("orders"), r)
		}
	}
	start := func() (p *sim.Process, end func()) {
		p = w.Process()
		s, err := sink.New(t.Context(), sink.Options{
			Emulator: sim.Endpoint, Connections: 2, Client: p.PubSubOptions(),
			Routes: []sink.Route{{Topic: "orders", Destination: orders, DeadLetter: dead}},
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := consumer.New(consumer.Options{
			Brokers: w.Kafka.Brokers(), Group: "g", Cluster: "msk", SessionTimeout: 10 * time.Second, Dial: p.Kafka.Dial,
			Sizes: consumer.Sizes{
				Window: 8 << 20, FetchMaxBytes: 1 << 20, FetchMaxPartition: 64 << 10,
				SlabBytes: 4 << 10, InFlight: 4, Linger: 5 * time.Millisecond,
			},
			Routes: []consumer.Route{{Topic: "orders", Destination: orders, Ordering: consumer.OrderingKey}},
		}, s)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
			_ = s.Close()
		}()
		return p, func() { cancel(); <-done }
	}
	pause := func() { <-time.After(time.Duration(2+random.IntN(10)) * time.Second) }

	produce(2000)
	first, endFirst := start()
	pause()
	h.Incident("join", "second")
	_, endSecond := start()
	produce(1000)
	pause()
	h.Incident("kill", "first")
	first.Kill()
	endFirst()
	pause()
	w.PubSub.RemoveTopic(orders)
	pause()
	if err := w.PubSub.CreateTopics(orders); err != nil {
		t.Fatal(err)
	}
	h.Incident("join", "third")
	_, endThird := start()
	produce(500)
	pause()
	h.Incident("leave", "second")
	endSecond()
	for limit := time.After(2 * time.Hour); !h.Quiet(); {
		select {
		case <-time.After(time.Second):
			continue
		case <-limit:
			t.Error("not everything arrived")
		}
		break
	}
	endThird()
	if err := h.Check(); err != nil {
		t.Error(err)
	}
}
