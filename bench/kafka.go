//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 3 // of every topic
	// batchBytes is what Java producers fill by default. Larger batches would
	// hide how much a fetch may bring of one partition: the first comes whole.
	batchBytes = 16 << 10
)

// kafka is a cluster and the client that fills it.
type kafka struct {
	brokers []string
	where   string
	client  *kgo.Client
	admin   *kadm.Client
	own     *server // nil when the addresses were given
}

// given are the addresses of a real Kafka; without them an embedded one is
// started, with a value size an endless one.
func openKafka(given []string, value int) (k *kafka, err error) {
	k = &kafka{brokers: given, where: "the given Kafka"}
	if given == nil {
		if k.own, err = startServer(kafkaRole, value); err != nil {
			return nil, err
		}
		k.brokers, k.where = k.own.addresses, "embedded Kafka"
	}
	k.client, err = kgo.NewClient(kgo.SeedBrokers(k.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(batchBytes),
		kgo.MaxBufferedBytes(32<<20), kgo.UnknownTopicRetries(-1)) // a new topic takes its time
	if err != nil {
		return nil, fmt.Errorf("making a kafka client: %w", err)
	}
	k.admin = kadm.NewClient(k.client)
	return k, nil
}

func (k *kafka) close() {
	k.client.Close()
	if k.own != nil {
		k.own.close()
	}
}

// forget removes topics, also after the end of ctx.
func (k *kafka) forget(ctx context.Context, topics []string) error {
	if _, err := k.admin.DeleteTopics(context.WithoutCancel(ctx), topics...); err != nil {
		return fmt.Errorf("deleting topics: %w", err)
	}
	return nil
}

// fill produces n records of random bytes, which no codec makes smaller.
func (k *kafka) fill(ctx context.Context, topic string, n, size int) error {
	random := rand.NewChaCha8([32]byte{1})
	var failed error // written by promises, which come one at a time; read after Flush
	for i := range n {
		value := make([]byte, size)
		_, _ = random.Read(value) // never fails
		k.client.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value},
			func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	if err := errors.Join(k.client.Flush(ctx), failed); err != nil {
		return fmt.Errorf("filling topic %s: %w", topic, err)
	}
	return nil
}

// trickle produces perSecond records a second over all partitions of topics,
// evenly, until ctx ends, and returns how many. A record is its time.
func (k *kafka) trickle(ctx context.Context, topics []string, perSecond int) (n int, err error) {
	tick := time.NewTicker(max(time.Millisecond, time.Second/time.Duration(max(perSecond, 1))))
	defer tick.Stop()
	produce := context.WithoutCancel(ctx)
	var failed error // written by promises, which come one at a time; read after Flush
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			if err := errors.Join(k.client.Flush(produce), failed); err != nil {
				return n, fmt.Errorf("trickling: %w", err)
			}
			return n, nil
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(perSecond)); n < due; n++ {
			k.client.Produce(produce, &kgo.Record{
				Topic: topics[n%len(topics)], Partition: int32(n / len(topics) % partitions), Key: []byte("customer-1234567"),
				Value: binary.BigEndian.AppendUint64(make([]byte, 0, 200), uint64(time.Now().UnixNano()))[:200],
			}, func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
		}
	}
}

// background starts a trickle. stop ends it and returns what trickle does.
func (k *kafka) background(ctx context.Context, topics []string, perSecond int) (stop func() (int, error)) {
	ctx, cancel := context.WithCancel(ctx)
	var sent int
	var err error
	var running sync.WaitGroup
	running.Go(func() { sent, err = k.trickle(ctx, topics, perSecond) })
	return func() (int, error) {
		cancel()
		running.Wait()
		return sent, err
	}
}
