// Package stage sets up everything that the demo's bridge runs between: an
// embedded Kafka with a load and an embedded strict Pub/Sub, both on loopback
// ports, and the account that compares what went in with what came out.
package stage

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/load"
)

const (
	// Project owns the topics of the embedded Pub/Sub.
	Project = "demo"
	// DeadLetter is the id of its dead-letter topic.
	DeadLetter = "bridge-dead-letters"
	// partitions of each Kafka topic, and brokers of the cluster.
	partitions = 3
	brokers    = 3
)

// Options of a Stage.
type Options struct {
	Topics  int
	Records int    // at most; 0 for no limit
	Rate    int    // records a second; 0 for as fast as possible
	Seed    uint64 // of the load
}

// Stage is a running Kafka and Pub/Sub. Use Start. Safe for concurrent use.
type Stage struct {
	Account
	opts   Options
	topics []string
	kafka  *fakekafka.Cluster
	pubsub *fakepubsub.Server
	addr   string
}

// Start starts both sides and creates all topics.
func Start(o Options) (*Stage, error) {
	s := &Stage{opts: o, topics: load.Topics(o.Topics)}
	s.Account.begin(s.topics)
	var err error
	if s.kafka, err = fakekafka.Start(fakekafka.Options{Brokers: brokers}); err != nil {
		return nil, err
	}
	s.pubsub = fakepubsub.New(fakepubsub.Options{Stores: []fakepubsub.Store{fakepubsub.OnStored(s.Account.received), &s.Account.keys}})
	if s.addr, err = s.pubsub.Start(); err != nil {
		s.kafka.Close()
		return nil, err
	}
	largest := map[string]string{"max.message.bytes": strconv.Itoa(load.MaxRecord)}
	for _, t := range s.topics {
		if err == nil {
			err = s.kafka.Create(t, partitions, largest)
		}
		if err == nil {
			err = s.pubsub.CreateTopics(fullName(t))
		}
	}
	if err == nil {
		err = s.pubsub.CreateTopics(fullName(DeadLetter))
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("creating topics: %w", err)
	}
	return s, nil
}

// Close stops both sides.
func (s *Stage) Close() {
	s.pubsub.Close()
	s.kafka.Close()
}

// Brokers are the bootstrap addresses of Kafka.
func (s *Stage) Brokers() []string { return s.kafka.Brokers() }

// PubSub is the address of Pub/Sub.
func (s *Stage) PubSub() string { return s.addr }

// Topics are the Kafka topics; the Pub/Sub topics have the same ids.
func (s *Stage) Topics() []string { return s.topics }

func fullName(topic string) string { return "projects/" + Project + "/topics/" + topic }

// burst is how many records go out between two looks at the clock.
const burst = 100

// Produce writes the load until it is complete or ctx ends, at the given rate.
func (s *Stage) Produce(ctx context.Context) error {
	p, err := s.kafka.Producer(kgo.ProducerBatchMaxBytes(load.MaxRecord), kgo.RecordRetries(10))
	if err != nil {
		return err
	}
	defer p.Close()
	// Large and unfit records come at the same places whatever the number of records.
	span := s.opts.Records
	if span == 0 {
		span = 1 << 20
	}
	g := load.New(load.Options{
		Seed: s.opts.Seed, Topics: s.topics, Partitions: partitions, Records: span,
		Large: min(5, span/2000), Unfit: min(1, span/2000),
	})
	began := time.Now()
	failed := make(chan error, 1) // the first error of a produce; written by callbacks
	for i := 0; (s.opts.Records == 0 || i < s.opts.Records) && ctx.Err() == nil; i++ {
		p.Send(ctx, g.Record(i), func(r *kgo.Record, err error) {
			if err == nil {
				s.Account.produced(r.Topic, r.Partition, r.Offset)
			} else if ctx.Err() == nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
		if s.opts.Rate > 0 && i%burst == burst-1 {
			due := began.Add(time.Duration(i+1) * time.Second / time.Duration(s.opts.Rate))
			if err := pause(ctx, time.Until(due)); err != nil {
				break
			}
		}
	}
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := p.Flush(flushing); err != nil {
		return fmt.Errorf("flushing the load: %w", err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("producing the load: %w", err)
	default:
		return nil
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
