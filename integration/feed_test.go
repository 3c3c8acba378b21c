//go:build integration && unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/mskbridge/mskbridge/internal/testbed/load"
)

// partitions of every topic of a load.
const partitions = 3

// feed produces the mixed load to topics of its own and tells the truth about
// it. The clients are nobody's but the test's.
type feed struct {
	t      testing.TB
	truth  *truth
	topics []string
	client *kgo.Client
	admin  *kadm.Client
	seed   uint64
}

// newFeed makes the topics name-00, name-01, ... on k.
func newFeed(t testing.TB, k *kafka, name string, topics int, seed uint64) *feed {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchMaxBytes(load.MaxRecord), kgo.BrokerMaxWriteBytes(2*load.MaxRecord),
		kgo.MaxBufferedBytes(64<<20), kgo.UnknownTopicRetries(-1)) // a new topic takes its time
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f := &feed{t: t, truth: newTruth(), client: client, admin: kadm.NewClient(client), seed: seed}
	for i := range topics {
		f.topics = append(f.topics, f.createTopic(fmt.Sprintf("%s-%02d", name, i)))
	}
	return f
}

func (f *feed) createTopic(topic string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	limit := fmt.Sprint(load.MaxRecord)
	made, err := f.admin.CreateTopic(ctx, partitions, -1, map[string]*string{"max.message.bytes": &limit}, topic)
	if err != nil {
		f.t.Fatalf("creating topic %s: %v", topic, err)
	}
	f.truth.topicID(topic, made.ID)
	return topic
}

// send produces one record and notes it when Kafka has it.
func (f *feed) send(ctx context.Context, r *kgo.Record, failed func(error)) {
	f.client.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err != nil {
			failed(err)
			return
		}
		f.truth.producedAt(r.Topic, r.Partition, r.Offset, r.Value)
	})
}

// run produces in the background, perSecond records a second over all topics,
// until stop is called and at least atLeast are sent. stop then waits until
// Kafka has everything, and fails the test when it has not.
func (f *feed) run(atLeast, perSecond int) (stop func()) {
	enough := make(chan struct{}) // closed by stop
	ended := make(chan error, 1)  // written once by the producing goroutine
	ctx := f.t.Context()
	mixed := load.New(load.Options{
		Seed: f.seed, Topics: f.topics, Partitions: partitions,
		Records: atLeast, Large: max(1, atLeast/30_000), Unfit: 1,
	})
	go func() {
		limiter := rate.NewLimiter(rate.Limit(perSecond), max(100, perSecond/10))
		var failure atomic.Pointer[error]
		for n := 0; failure.Load() == nil; n++ {
			if n >= atLeast && closed(enough) {
				break
			}
			if err := limiter.Wait(ctx); err != nil {
				break
			}
			f.send(ctx, mixed.Record(n), func(err error) { failure.CompareAndSwap(nil, &err) })
		}
		err := f.client.Flush(ctx)
		if first := failure.Load(); first != nil {
			err = errors.Join(*first, err)
		}
		ended <- err
	}()
	return func() {
		f.t.Helper()
		close(enough)
		if err := <-ended; err != nil {
			f.t.Fatalf("producing: %v", err)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitAll waits until everything produced has arrived or been parked.
func (f *feed) awaitAll(within time.Duration) {
	f.t.Helper()
	took := eventually(f.t, within, "everything produced to arrive", func() bool {
		s := f.truth.now()
		return s.received >= s.produced
	})
	f.t.Logf("the rest arrived %v after the load had ended", took)
}

// produce sends records as they are and waits until Kafka has them; it fills in
// their offsets.
func (f *feed) produce(records ...*kgo.Record) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for _, r := range records {
		if err := f.client.ProduceSync(ctx, r).FirstErr(); err != nil {
			f.t.Fatalf("producing: %v", err)
		}
		f.truth.producedAt(r.Topic, r.Partition, r.Offset, r.Value)
	}
}
