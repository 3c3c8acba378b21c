//go:build synctests

package sim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/sim"
)

// toy is the textbook loop: poll, publish, commit.
type toy struct {
	client *kgo.Client
	topics *pubsub.TopicAdminClient
}

func newToy(t *testing.T, w *sim.World, p *sim.Process) *toy {
	t.Helper()
	cl, err := w.Kafka.Client(kgo.Dialer(p.Kafka.Dial), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return &toy{cl, w.TopicClient(t, p)}
}

func (b *toy) run(ctx context.Context) error {
	for ctx.Err() == nil {
		fs := b.client.PollFetches(ctx)
		if fs.Empty() {
			continue
		}
		req := &pubsubpb.PublishRequest{Topic: sim.Destination("orders")}
		fs.EachRecord(func(r *kgo.Record) {
			req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{
				Data: r.Value, Attributes: map[string]string{"idempotency_key": fmt.Sprint(r.Partition, "/", r.Offset)},
			})
		})
		if _, err := b.topics.Publish(ctx, req); err != nil {
			return err
		}
		if err := b.client.CommitRecords(ctx, fs.Records()...); err != nil {
			return err
		}
	}
	return nil
}

func produce(t *testing.T, w *sim.World, n int) {
	t.Helper()
	if err := w.Kafka.Create("orders", 3, nil); err != nil {
		t.Fatal(err)
	}
	p, err := w.Kafka.Producer()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range n {
		if err := p.Produce(t.Context(), &kgo.Record{Topic: "orders", Partition: int32(i % 3), Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
	}
}

// until waits, in virtual time, until cond holds.
func until(t *testing.T, what string, limit time.Duration, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("no %s within %v", what, limit)
		}
	}
}

func distinct(k *fakepubsub.Keys) int { _, n, _, _ := k.Totals(); return n }

// TestWholePathInOneBubble: Kafka, a group consumer, Google's client with its
// own retries, and Pub/Sub failing each request once and answering after 3 s.
func TestWholePathInOneBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &fakepubsub.Keys{}
		w := sim.New(t, sim.Options{Brokers: 3, Destinations: []string{"orders"}, Stores: []fakepubsub.Store{keys}})
		w.PubSub.Script("", fakepubsub.Join(
			fakepubsub.Attempts(1, fakepubsub.Fault{Code: codes.Unavailable}),
			fakepubsub.Always(fakepubsub.Fault{Delay: 3 * time.Second}),
		))
		produce(t, w, 30)
		begin := time.Now()
		b := newToy(t, w, w.Process())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.run(ctx) }()
		until(t, "delivery", time.Minute, func() bool { return distinct(keys) == 30 })
		if d := time.Since(begin); d < 3*time.Second {
			t.Errorf("delivered after %v of virtual time, want at least the 3s of the script", d)
		}
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		b.client.Close()
	})
}

// TestKillInOneBubble: the first incarnation dies between storing and
// answering; the second takes over when its session has run out.
func TestKillInOneBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &fakepubsub.Keys{}
		w := sim.New(t, sim.Options{Destinations: []string{"orders"}, Stores: []fakepubsub.Store{keys}})
		w.PubSub.Script("", fakepubsub.Always(fakepubsub.Fault{Stored: true, Hang: true}))
		produce(t, w, 30)

		var running sync.WaitGroup
		start := func(p *sim.Process) (stop func()) {
			b := newToy(t, w, p)
			ctx, cancel := context.WithCancel(t.Context())
			running.Go(func() { _ = b.run(ctx) })
			return func() { cancel(); b.client.CloseAllowingRebalance(); running.Wait() }
		}
		first := w.Process()
		stop := start(first)
		until(t, "storing", time.Minute, func() bool { return distinct(keys) > 0 })
		first.Kill()
		stop()
		if commits := w.Kafka.GroupInfo("g").Commits; len(commits) != 0 {
			t.Errorf("the killed incarnation committed: %v", commits)
		}

		w.PubSub.Script("", nil)
		stop = start(w.Process())
		until(t, "commit of everything", time.Minute, func() bool {
			var next int64
			for _, c := range w.Kafka.GroupInfo("g").Commits["orders"] {
				next += c.Offset
			}
			return next == 30
		})
		stop()
		if _, n, repeats, mixed := keys.Totals(); n != 30 || repeats == 0 || mixed != 0 {
			t.Errorf("%d keys, %d repeats, %d with different bytes, want 30, some and none", n, repeats, mixed)
		}
	})
}
