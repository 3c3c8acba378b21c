//go:build synctests

package sim_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/history"
	"github.com/mskbridge/mskbridge/internal/testbed/load"
	"github.com/mskbridge/mskbridge/internal/testbed/sim"
)

// small is a bridge of a few lines whose parts a test can replace by wrong ones.
type small struct {
	client *kgo.Client
	topics *pubsub.TopicAdminClient

	commitFirst bool                              // before the acknowledgement
	giveUp      bool                              // on a refused batch, and go on
	twice       bool                              // publish each batch again
	damage      func(map[string]string)           // the attributes
	from        func([]*kgo.Record) []*kgo.Record // leave records out
}

func (b *small) run(ctx context.Context) error {
	for ctx.Err() == nil {
		fs := b.client.PollFetches(ctx)
		for _, r := range batches(fs) {
			if b.commitFirst {
				if err := b.client.CommitRecords(ctx, r...); err != nil {
					return err
				}
			}
			if err := b.publish(ctx, r); err != nil {
				return err
			}
			if err := b.client.CommitRecords(ctx, r...); err != nil {
				return err
			}
		}
	}
	return nil
}

// batches cuts a poll into requests of at most ten records of one partition.
func batches(fs kgo.Fetches) (out [][]*kgo.Record) {
	fs.EachPartition(func(p kgo.FetchTopicPartition) {
		for rs := p.Records; len(rs) > 0; {
			n := min(10, len(rs))
			out = append(out, rs[:n])
			rs = rs[n:]
		}
	})
	return out
}

func (b *small) publish(ctx context.Context, rs []*kgo.Record) error {
	if b.from != nil {
		rs = b.from(rs)
	}
	req := &pubsubpb.PublishRequest{Topic: sim.Destination("orders")}
	for _, r := range rs {
		m := &pubsubpb.PubsubMessage{Data: r.Value, Attributes: attributes(r)}
		if b.damage != nil {
			b.damage(m.Attributes)
		}
		req.Messages = append(req.Messages, m)
	}
	again := b.twice
	for {
		attempt, cancel := context.WithTimeout(ctx, 20*time.Second)
		_, err := b.topics.Publish(attempt, req)
		cancel()
		switch {
		case err == nil && again:
			again = false
			continue
		case err == nil || b.giveUp && status.Code(err) == codes.PermissionDenied:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func attributes(r *kgo.Record) map[string]string {
	a := map[string]string{
		"idempotency_key": fmt.Sprintf("v1/msk/%s/%s/%d/%d/%d", r.Topic,
			base64.RawURLEncoding.EncodeToString(r.Context.Value(topicID{}).([]byte)), r.Partition, r.LeaderEpoch, r.Offset),
		"kafka_topic": r.Topic, "kafka_partition": fmt.Sprint(r.Partition), "kafka_offset": fmt.Sprint(r.Offset),
	}
	if r.Key != nil {
		a["kafka_key"], a["kafka_key_encoding"] = base64.StdEncoding.EncodeToString(r.Key), "base64"
	}
	if r.Value == nil {
		a["kafka_tombstone"] = "true"
	}
	if len(r.Headers) > 0 {
		a["kafka_headers_dropped"] = fmt.Sprint(len(r.Headers))
	}
	return a
}

type topicID struct{}

// identify is a hook that lets attributes know the topic's id.
type identify [16]byte

func (id identify) OnFetchRecordBuffered(r *kgo.Record) {
	r.Context = context.WithValue(context.Background(), topicID{}, id[:])
}

// play runs the bridge over a load with faults, kills it once in the middle,
// lets the next incarnation finish, and returns the judge's verdict.
func play(t *testing.T, seed uint64, wrong func(*small)) error {
	t.Helper()
	var verdict error
	synctest.Test(t, func(t *testing.T) {
		h := history.New(history.Options{
			Seed: seed, Cluster: "msk", Group: "g",
			Routes: map[string]string{sim.Destination("orders"): "orders"},
		})
		w := sim.New(t, sim.Options{Brokers: 2, Destinations: []string{"orders"}, Stores: []fakepubsub.Store{h}})
		w.Kafka.Observe(h)
		w.PubSub.Script("", fakepubsub.Join(
			fakepubsub.Chance(seed, 0.1, fakepubsub.Fault{Code: codes.Unavailable}),
			fakepubsub.Chance(seed+1, 0.1, fakepubsub.Fault{Code: codes.Internal, Stored: true}),
			fakepubsub.Attempts(1, fakepubsub.Fault{Code: codes.PermissionDenied}),
			fakepubsub.Delay(func(r *fakepubsub.Request) time.Duration {
				return time.Duration(fakepubsub.Draw(seed+2, r) * float64(2*time.Second))
			}),
		))
		feed(t, w, h, seed)
		start := func() (p *sim.Process, end func()) {
			p = w.Process()
			cl, err := w.Kafka.Client(kgo.Dialer(p.Kafka.Dial), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
				kgo.SessionTimeout(10*time.Second), kgo.WithHooks(identify(w.Kafka.TopicID("orders"))))
			if err != nil {
				t.Fatal(err)
			}
			b := &small{client: cl, topics: w.TopicClient(t, p)}
			b.topics.CallOptions.Publish = nil
			if wrong != nil {
				wrong(b)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = b.run(ctx) }()
			return p, func() { cancel(); cl.CloseAllowingRebalance(); <-done }
		}
		p, end := start()
		select {
		case <-time.After(30 * time.Second):
		case <-t.Context().Done():
		}
		h.Incident("kill", "first")
		p.Kill()
		end()
		_, end = start()
		for limit := time.After(time.Hour); !h.Quiet(); {
			select {
			case <-time.After(time.Second):
				continue
			case <-limit:
			}
			break
		}
		end()
		verdict = h.Check()
	})
	return verdict
}

// feed produces a load and tells the judge.
func feed(t *testing.T, w *sim.World, h *history.History, seed uint64) {
	t.Helper()
	if err := w.Kafka.Create("orders", 3, nil); err != nil {
		t.Fatal(err)
	}
	p, err := w.Kafka.Producer()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	g := load.New(load.Options{Seed: seed, Topics: []string{"orders"}, Partitions: 3, Records: 200})
	records := make([]*kgo.Record, g.Len())
	for i := range records {
		records[i] = g.Record(i)
	}
	if err := p.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		h.Produced(w.Kafka.TopicID("orders"), r)
	}
}

// TestJudge: a sound bridge passes under faults and a kill, and each wrong one
// is named by the right invariant.
func TestJudge(t *testing.T) {
	for seed := range uint64(3) {
		if err := play(t, seed, nil); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, want string
		wrong      func(*small)
	}{
		{"commits before the acknowledgement", "I2", func(b *small) { b.commitFirst = true }},
		{"skips what is refused", "I2", func(b *small) { b.giveUp = true }},
		{"leaves tombstones out", "I2", func(b *small) {
			b.from = func(rs []*kgo.Record) (out []*kgo.Record) {
				for _, r := range rs {
					if r.Value != nil {
						out = append(out, r)
					}
				}
				return out
			}
		}},
		{"publishes twice", "I9", func(b *small) { b.twice = true }},
		{"leaves the topic id out of the key", "I5", func(b *small) {
			b.damage = func(a map[string]string) {
				parts := strings.Split(a["idempotency_key"], "/")
				parts[3] = "-"
				a["idempotency_key"] = strings.Join(parts, "/")
			}
		}},
		{"puts the time into the key", "I6", func(b *small) {
			b.damage = func(a map[string]string) { a["idempotency_key"] += fmt.Sprint("/", time.Now().Unix()) }
		}},
		{"makes a null key empty", "I7", func(b *small) {
			b.damage = func(a map[string]string) { a["kafka_key"] += "" }
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(2) {
				if err := play(t, seed, tt.wrong); err == nil || !strings.Contains(err.Error(), tt.want+" broken") {
					t.Fatalf("seed %d: want %s, got %v", seed, tt.want, err)
				}
			}
		})
	}
}
