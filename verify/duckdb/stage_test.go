//go:build integration && unix

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/audit"
	"github.com/mskbridge/mskbridge/internal/audit/kafka"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/emulator"
	"github.com/mskbridge/mskbridge/internal/testbed/load"
	"github.com/mskbridge/mskbridge/internal/testbed/process"
	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

const (
	stagePartitions = 3
	stageRecords    = 6000
	stageRate       = 400 // records a second, so that it is killed under load
)

// parts are what all formats share.
type parts struct {
	kafka    *realkafka.Cluster
	emulator *emulator.Emulator
	binary   string
}

// need ends the test for want of a part: as failed where parts are required,
// else as skipped.
func need(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*process.MissingError](err); ok && os.Getenv("MSKBRIDGE_REQUIRE_PARTS") != "1" {
		t.Skipf("SKIPPED, NOT PROVED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newParts(t *testing.T) *parts {
	t.Helper()
	p := &parts{binary: filepath.Join(t.TempDir(), "mskbridge")}
	var err error
	p.kafka, err = realkafka.Start(t.Context(), realkafka.Options{})
	need(t, err)
	t.Cleanup(func() { _ = p.kafka.Close() })
	p.emulator, err = emulator.Start(t.Context())
	need(t, err)
	t.Cleanup(func() { _ = p.emulator.Close() })
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.binary, "./cmd/mskbridge")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the bridge: %v\n%s", err, out)
	}
	return p
}

// stage is one route, from Kafka to DuckDB.
type stage struct {
	*Warehouse
	t       *testing.T
	parts   *parts
	spec    warehouse.Spec
	format  message.Format
	group   string
	client  *kgo.Client
	admin   *kadm.Client
	env     []string
	bridges int

	produced int // records that Kafka has, those of aborted transactions left out

	mu      sync.Mutex // guards what follows
	waiting []Delivery // received, not landed
	parked  map[string]bool
	landed  map[string]bool
}

func newStage(t *testing.T, p *parts, format warehouse.Format) *stage {
	t.Helper()
	name := "orders-" + strings.ReplaceAll(string(format), " ", "-")
	s := &stage{
		t: t, parts: p, group: name, parked: make(map[string]bool), landed: make(map[string]bool),
		spec: warehouse.Spec{Dataset: "kafka", Topic: name, Format: format, RetentionDays: 7},
	}
	statements, err := warehouse.Render(s.spec)
	if err != nil {
		t.Fatal(err)
	}
	if s.Warehouse, err = Open(t.Context(), s.spec, statements); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.connect()
	s.configure()
	s.load(t.Context())
	return s
}

// connect makes the topic, with clients that are nobody's but the test's.
func (s *stage) connect() {
	s.t.Helper()
	var err error
	s.client, err = kgo.NewClient(kgo.SeedBrokers(s.parts.kafka.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(load.MaxRecord), kgo.BrokerMaxWriteBytes(2*load.MaxRecord), kgo.UnknownTopicRetries(-1))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.client.Close)
	s.admin = kadm.NewClient(s.client)
	limit := fmt.Sprint(load.MaxRecord)
	if _, err := s.admin.CreateTopic(s.t.Context(), stagePartitions, -1, map[string]*string{"max.message.bytes": &limit}, s.spec.Topic); err != nil {
		s.t.Fatal(err)
	}
}

// configure writes the routes file and the environment of the bridge.
func (s *stage) configure() {
	s.t.Helper()
	format, value := "raw", "bytes"
	switch s.spec.Format {
	case warehouse.EnvelopeBytes:
		format, s.format = "envelope", message.EnvelopeBytes
	case warehouse.EnvelopeJSON:
		format, value, s.format = "envelope", "json", message.EnvelopeJSON
	}
	file := filepath.Join(s.t.TempDir(), "routes.yaml")
	routes := fmt.Sprintf("routes:\n  - topic: %s\n    format: %s\n    value: %s\n    dead_letter: %s-dead\n", s.spec.Topic, format, value, s.spec.Topic)
	if format == "raw" {
		routes = strings.Replace(routes, "    value: bytes\n", "", 1)
	}
	if err := os.WriteFile(file, []byte(routes), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(),
		"BRIDGE_BROKERS=" + strings.Join(s.parts.kafka.Brokers(), ","), "BRIDGE_ROUTES_FILE=" + file, "BRIDGE_AUTH=plaintext",
		"BRIDGE_GROUP=" + s.group, "BRIDGE_PROJECT=p", "BRIDGE_SESSION_TIMEOUT=6s", "BRIDGE_MEMORY=256MiB",
		"PUBSUB_EMULATOR_HOST=" + s.parts.emulator.Address(),
	}
}

// load is the loader: it receives what is published and remembers it for land.
func (s *stage) load(ctx context.Context) {
	s.t.Helper()
	topic := "projects/p/topics/" + s.spec.Topic
	dead := topic + "-dead" // of its own: a pull of a stage that ended may still take messages
	if err := s.parts.emulator.CreateTopics(ctx, topic, dead); err != nil {
		s.t.Fatal(err)
	}
	receiving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var receivers sync.WaitGroup
	for name, keep := range map[string]func(*pubsubpb.PubsubMessage){
		topic: func(m *pubsubpb.PubsubMessage) {
			s.waiting = append(s.waiting, Delivery{m.GetMessageId(), m.GetPublishTime().AsTime(), m.GetData(), m.GetAttributes(), m.GetOrderingKey()})
			s.landed[m.GetAttributes()[message.AttrIdempotencyKey]] = true
		},
		dead: func(m *pubsubpb.PubsubMessage) { s.parked[m.GetAttributes()[message.AttrIdempotencyKey]] = true },
	} {
		receivers.Go(func() {
			err := s.parts.emulator.Receive(receiving, name, func(m *pubsubpb.PubsubMessage) {
				s.mu.Lock()
				defer s.mu.Unlock()
				keep(m)
			})
			if err != nil {
				s.t.Error(err)
			}
		})
	}
	s.t.Cleanup(func() {
		stop()
		receivers.Wait()
	})
}

// land writes what was received.
func (s *stage) land(ctx context.Context) {
	s.t.Helper()
	s.mu.Lock()
	due := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if err := s.Land(ctx, due...); err != nil {
		s.t.Fatal(err)
	}
}

// produce sends the mixed load in the background, with aborted transactions in
// it: offsets that nobody may miss. stop waits for the end.
func (s *stage) produce(ctx context.Context) (stop func()) {
	mixed := load.New(load.Options{Seed: 6, Topics: []string{s.spec.Topic}, Partitions: stagePartitions, Records: stageRecords, Large: 2, Unfit: 1})
	ended := make(chan error, 1) // written once
	go func() { ended <- s.send(ctx, mixed) }()
	return func() {
		s.t.Helper()
		if err := <-ended; err != nil {
			s.t.Fatalf("producing: %v", err)
		}
	}
}

func (s *stage) send(ctx context.Context, mixed *load.Generator) error {
	aborting, err := kgo.NewClient(kgo.SeedBrokers(s.parts.kafka.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(s.group))
	if err != nil {
		return err
	}
	defer aborting.Close()
	limit := rate.NewLimiter(stageRate, stageRate/4)
	var all kgo.FirstErrPromise
	for i := range stageRecords {
		if err := limit.Wait(ctx); err != nil {
			return err
		}
		s.client.Produce(ctx, mixed.Record(i), all.Promise())
		if s.produced++; i%1000 != 999 {
			continue
		}
		if err := aborting.BeginTransaction(); err != nil {
			return err
		}
		for p := range int32(stagePartitions) {
			aborting.Produce(ctx, &kgo.Record{Topic: s.spec.Topic, Partition: p, Value: []byte("never")}, nil)
		}
		if err := errors.Join(aborting.Flush(ctx), aborting.EndTransaction(ctx, kgo.TryAbort)); err != nil {
			return err
		}
	}
	return errors.Join(s.client.Flush(ctx), all.Err())
}

// start runs one more bridge.
func (s *stage) start() *process.Process {
	s.t.Helper()
	ports, err := process.Ports(1)
	if err != nil {
		s.t.Fatal(err)
	}
	s.bridges++
	b, err := process.Start(process.Spec{
		Name: fmt.Sprintf("bridge%d", s.bridges), Path: s.parts.binary, Args: []string{"run"}, Dir: s.t.TempDir(),
		Env: append(s.env[:len(s.env):len(s.env)], fmt.Sprintf("PORT=%d", ports[0])),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		b.Kill()
		if s.t.Failed() {
			s.t.Logf("last lines of a bridge:\n%s", b.Tail(20))
		}
	})
	return b
}

// seen is how many records have arrived, parked ones too.
func (s *stage) seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.landed) + len(s.parked)
}

// await looks until done, every 50 ms.
func (s *stage) await(within time.Duration, what string, done func() bool) {
	s.t.Helper()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(began) > within {
			s.t.Fatalf("waited %v for: %s", within, what)
		}
		<-tick.C
	}
}

// killed runs a bridge, and kills it while it works.
func (s *stage) killed(ctx context.Context) {
	s.t.Helper()
	before := s.seen()
	b := s.start()
	s.await(time.Minute, "the first records of a bridge", func() bool { return s.seen() > before+300 })
	b.Kill()
	s.land(ctx)
	s.t.Logf("killed with %d records there", s.seen())
}

// finish runs a last bridge until everything has arrived and is committed.
func (s *stage) finish(ctx context.Context, stop func()) {
	s.t.Helper()
	b := s.start()
	stop()
	s.await(3*time.Minute, "everything to arrive", func() bool { return s.seen() >= s.produced })
	ends, err := s.admin.ListEndOffsets(ctx, s.spec.Topic)
	if err != nil {
		s.t.Fatal(err)
	}
	s.await(time.Minute, "everything to be committed", func() bool {
		at, err := s.admin.FetchOffsets(ctx, s.group)
		done := err == nil
		for p := range int32(stagePartitions) {
			end, _ := ends.Lookup(s.spec.Topic, p)
			committed, _ := at.Lookup(s.spec.Topic, p)
			done = done && committed.At == end.Offset
		}
		return done
	})
	b.Stop(20 * time.Second)
	s.land(ctx)
}

func (s *stage) merge(ctx context.Context, now time.Time) {
	s.t.Helper()
	if err := s.Merge(ctx, now, nil); err != nil {
		s.t.Fatal(err)
	}
}

// audit is what the command does, with DuckDB in BigQuery's place.
func (s *stage) audit(ctx context.Context) *audit.Report {
	s.t.Helper()
	side := &kafka.Side{Options: consumer.Options{
		Brokers: s.parts.kafka.Brokers(), Group: s.group, Cluster: "msk", SessionTimeout: 6 * time.Second,
		Sizes:  consumer.Sizes{Window: 32 << 20, FetchMaxBytes: 16 << 20, FetchMaxPartition: 16 << 20, SlabBytes: 1 << 20, InFlight: 4},
		Routes: []consumer.Route{{Topic: s.spec.Topic, Destination: "projects/p/topics/" + s.spec.Topic, Format: s.format}},
	}}
	o := audit.Options{
		Warehouse: Seam{s.Warehouse, time.Now}, Kafka: side, Spec: s.spec, Cluster: "msk",
		Since: time.Now().Add(-24 * time.Hour), Settle: 2 * time.Second,
	}
	reports, err := audit.Run(ctx, []audit.Options{o}, 1<<40, false, func(line string) { s.t.Log(line) })
	if err != nil {
		s.t.Fatal(err)
	}
	return reports.Routes[0]
}

// command runs the bridge's binary to its end.
func (s *stage) command(ctx context.Context, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(ctx, s.parts.binary, args...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	s.t.Logf("%v: %s", args, out[max(0, len(out)-200):])
}

// awaitBack lands until raw has n records again.
func (s *stage) awaitBack(ctx context.Context, n int64) {
	s.t.Helper()
	s.await(time.Minute, "what was lost to come back", func() bool {
		s.land(ctx)
		return int64(count(ctx, s.t, s.DB, "SELECT count(DISTINCT idempotency_key) FROM "+s.Table("records"))) >= n
	})
}
