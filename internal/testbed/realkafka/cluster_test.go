//go:build integration && unix

package realkafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	began := time.Now()
	c, err := Start(t.Context(), o)
	if _, ok := errors.AsType[*process.MissingError](err); ok && os.Getenv("MSKBRIDGE_REQUIRE_PARTS") != "1" {
		t.Skipf("SKIPPED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kafka %s, %d nodes, up after %v", c.Version(), len(c.Brokers()), time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			c.KeepFiles()
			t.Logf("logs kept in %s\n%s", c.Dir(), c.Logs(20))
		}
		_ = c.Close()
	})
	return c
}

func produceAndFetch(ctx context.Context, t *testing.T, c *Cluster, topic string, n int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range n {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < n; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		got += fetches.NumRecords()
	}
}

func createTopic(ctx context.Context, t *testing.T, c *Cluster, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 3, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

func TestOneNode(t *testing.T) {
	for _, version := range []string{Version3, Version4} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			c := start(t, Options{Version: version})
			createTopic(ctx, t, c, "first")
			produceAndFetch(ctx, t, c, "first", 100)

			if err := c.Freeze(0); err != nil {
				t.Fatal(err)
			}
			// A signal needs a moment to reach all threads.
			for tries := 0; frozen(ctx, c) == nil; tries++ {
				if tries == 100 {
					t.Fatal("a frozen node answers")
				}
			}
			if err := c.Thaw(0); err != nil {
				t.Fatal(err)
			}
			produceAndFetch(ctx, t, c, "first", 10)

			c.Kill(0)
			if err := c.Restart(ctx, 0); err != nil {
				t.Fatal(err)
			}
			produceAndFetch(ctx, t, c, "first", 10)
		})
	}
}

// frozen returns why a node does not answer within a second, nil when it does.
func frozen(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return ping(ctx, c)
}

func ping(ctx context.Context, c *Cluster) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}

func TestThreeNodesOutliveOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	c := start(t, Options{Version: Version4, Nodes: 3})
	createTopic(ctx, t, c, "first")
	for node := range 3 {
		c.Stop(node)
		produceAndFetch(ctx, t, c, "first", 10)
		if err := c.Restart(ctx, node); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStrangerOnThePortIsNoticed(t *testing.T) {
	c := start(t, Options{Version: Version4})
	id := c.id
	c.id = newID()
	defer func() { c.id = id }()
	if err := c.await(t.Context(), 0, 1); !errors.Is(err, errStranger) {
		t.Errorf("got %v, want %v", err, errStranger)
	}
}
