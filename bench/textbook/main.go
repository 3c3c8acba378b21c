// Command textbook is what most people would write: poll, publish each record
// through the client library's Publisher, wait for the results, commit. Both
// clients are as they come. The benchmark runs it beside mskbridge.
//
// It is here to be measured and lacks what a bridge needs: an error ends it, a
// partition may move while its records are in flight, nothing bounds its memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"cloud.google.com/go/pubsub/v2"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "textbook:", err)
		os.Exit(1) //nolint:forbidigo // main
	}
}

func run() error {
	brokers := flag.String("brokers", "", "host:port, comma separated")
	topics := flag.String("topics", "", "Kafka topics, comma separated; the Pub/Sub topics have the same names")
	group := flag.String("group", "textbook", "consumer group")
	project := flag.String("project", "", "Google project; PUBSUB_EMULATOR_HOST says where it is")
	inOrder := flag.Bool("in-order", false, "await results one after the other, without a goroutine for each record")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	names := strings.Split(*topics, ",")
	in, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		kgo.ConsumerGroup(*group), kgo.ConsumeTopics(names...), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return fmt.Errorf("making the kafka client: %w", err)
	}
	defer in.Close()
	out, err := pubsub.NewClient(ctx, *project)
	if err != nil {
		return fmt.Errorf("making the pubsub client: %w", err)
	}
	defer out.Close()
	publishers := make(map[string]*pubsub.Publisher, len(names))
	for _, name := range names {
		publishers[name] = out.Publisher(name)
	}
	deliver := each
	if *inOrder {
		deliver = oneByOne
	}
	return loop(ctx, in, publishers, deliver)
}

// loop commits a poll when all of it is acknowledged. It returns when ctx ends
// or anything fails.
func loop(ctx context.Context, in *kgo.Client, out map[string]*pubsub.Publisher,
	deliver func(context.Context, []*kgo.Record, map[string]*pubsub.Publisher) error,
) error {
	for {
		fetches := in.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to stop
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("polling: %w", err)
		}
		records := fetches.Records()
		if err := deliver(ctx, records, out); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // asked to stop
			}
			return fmt.Errorf("publishing: %w", err)
		}
		if err := in.CommitRecords(ctx, records...); err != nil && ctx.Err() == nil {
			return fmt.Errorf("committing: %w", err)
		}
	}
}

// each awaits every result on a goroutine of its own.
func each(ctx context.Context, records []*kgo.Record, out map[string]*pubsub.Publisher) error {
	var waiting sync.WaitGroup
	failed := make(chan error, 1) // keeps the first error
	for _, r := range records {
		result := out[r.Topic].Publish(ctx, translate(r))
		waiting.Go(func() {
			if _, err := result.Get(ctx); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	waiting.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// oneByOne publishes all and then awaits the results in the same order.
func oneByOne(ctx context.Context, records []*kgo.Record, out map[string]*pubsub.Publisher) error {
	results := make([]*pubsub.PublishResult, len(records))
	for i, r := range records {
		results[i] = out[r.Topic].Publish(ctx, translate(r))
	}
	for _, result := range results {
		if _, err := result.Get(ctx); err != nil {
			return err
		}
	}
	return nil
}

// translate gives the message the attributes that mskbridge gives it, so that
// both publish the same.
func translate(r *kgo.Record) *pubsub.Message {
	partition, offset := strconv.Itoa(int(r.Partition)), strconv.FormatInt(r.Offset, 10)
	attributes := map[string]string{
		"idempotency_key":    "v1/msk/" + r.Topic + "/-/" + partition + "/-1/" + offset,
		"kafka_topic":        r.Topic,
		"kafka_partition":    partition,
		"kafka_offset":       offset,
		"kafka_timestamp_ms": strconv.FormatInt(r.Timestamp.UnixMilli(), 10),
	}
	if r.Key != nil {
		attributes["kafka_key"] = string(r.Key)
	}
	for _, h := range r.Headers {
		attributes["kafka_header_"+h.Key] = string(h.Value)
	}
	return &pubsub.Message{Data: r.Value, Attributes: attributes}
}
