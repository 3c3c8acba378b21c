//go:build linux

// Command bench measures the whole path: three brokers, a Pub/Sub server and
// the bridge under test, each a process of its own on loopback, and mskbridge
// in turn with the loop of bench/textbook on the same servers.
//
//	go run ./bench                                     # the short version, under 3 minutes
//	go run ./bench -for 20s -rounds 3 -backlog 2000    # worth quoting
//	KAFKA_BROKERS=host:9092 go run ./bench -run backlog,idle  # a real Kafka
//
// Scenarios:
//
//	full     24 topics that never end: what a record costs. No latency: behind
//	         an endless backlog it says how long the queue is, nothing else.
//	backlog  24 topics, one with a backlog, 20 with three records a second, a
//	         sink that takes 30 ms: mskbridge must stay below 300 MiB and bring
//	         the quiet ones over within a second, else the exit code is 1.
//	idle     24 topics with nothing, 5 and 200 records a second each.
//
// How to read it: processor time is that of the bridge's process alone, in a
// window after the first records came through. Servers and producer share the
// machine, so a rate is a lower bound and a latency an upper one; compare only
// within a table. The textbook loop works in bursts of one poll, so short
// windows blur its figures. Loopback hides round trips and HTTP/2 windows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == kafkaRole:
		value, _ := strconv.Atoi(os.Args[2]) // our own argument
		err = serveKafka(value, os.Stdin, os.Stdout)
	case len(os.Args) == 3 && os.Args[1] == pubsubRole:
		err = servePubSub(os.Stdin, os.Stdout)
	default:
		err = command(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // main
	}
}

// bench is what the scenarios share.
type bench struct {
	out     io.Writer
	dir     string        // programs and logs
	window  time.Duration // of one measurement
	rounds  int
	backlog int // MB
	pubsub  *server
	given   []string // a real Kafka's addresses
}

func command(out io.Writer) error {
	b := &bench{out: out, given: realkafka.Existing()}
	which := flag.String("run", "full,backlog,idle", "scenarios, comma separated")
	flag.DurationVar(&b.window, "for", 4*time.Second, "length of one measurement")
	flag.IntVar(&b.rounds, "rounds", 1, "rounds of the scenario full; each figure is the median")
	flag.IntVar(&b.backlog, "backlog", 300, "backlog in MB; the embedded Kafka keeps it in memory")
	flag.Parse()
	scenarios := map[string]func(context.Context) error{"full": b.full, "backlog": b.drain, "idle": b.idle}
	names := strings.Split(*which, ",")
	for _, name := range names {
		if scenarios[name] == nil {
			return fmt.Errorf("no scenario %q", name)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	defer b.pubsub.close()
	load, _ := os.ReadFile("/proc/loadavg") // for the reader alone
	fmt.Fprintf(out, "load average before the start: %s", load)
	var failed []error
	for _, name := range names {
		if err := scenarios[name](ctx); err != nil {
			failed = append(failed, fmt.Errorf("scenario %s: %w", name, err))
		}
	}
	fmt.Fprintf(out, "\nCompare within a table only. Longer, as figures worth quoting need: go run ./bench -for 20s -rounds 3 -backlog 2000\n")
	return errors.Join(failed...)
}

// prepare builds the programs and starts the Pub/Sub server.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "mskbridge-bench-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err := programs(ctx, b.dir); err != nil {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	if b.pubsub, err = startServer(pubsubRole, 0); err != nil {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	return nil
}

// topics makes n topics on both sides. Each run has its own, so that none
// begins with what another left.
func (b *bench) topics(ctx context.Context, k *kafka, prefix string, n int) (names []string, err error) {
	run := time.Now().UnixNano() & 0xffffffff
	var full []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s%x-%02d", prefix, run, i))
		full = append(full, "projects/"+project+"/topics/"+names[i])
	}
	if _, err := b.pubsub.ask(order{Create: full}); err != nil {
		return nil, err
	}
	made, err := k.admin.CreateTopics(ctx, partitions, -1, nil, names...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("creating topics: %w", err)
	}
	return names, nil
}

// run calls f with a bridge at work, with a sink that takes delay.
func (b *bench) run(ctx context.Context, which bridge, k *kafka, topics []string, delay time.Duration, f func(*running) error) error {
	if _, err := b.pubsub.ask(order{Delay: &delay, Reset: true}); err != nil {
		return err
	}
	r, err := which.start(b.dir, k.brokers, topics, b.pubsub.addresses[0])
	if err != nil {
		return err
	}
	err = f(r)
	r.stop()
	// The group is empty at once or, where the bridge did not leave it, later.
	_, _ = k.admin.DeleteGroups(context.WithoutCancel(ctx), r.group)
	return err
}

// await asks the Pub/Sub server until done says so. It fails when the bridge
// ends or 2 minutes pass without a message.
func (b *bench) await(ctx context.Context, r *running, done func(counts) bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last, moved := int64(-1), time.Now()
	for {
		c, err := b.pubsub.ask(order{})
		if err != nil || done(c) {
			return err
		}
		if c.Messages != last {
			last, moved = c.Messages, time.Now()
		}
		if time.Since(moved) > 2*time.Minute {
			return fmt.Errorf("%s: nothing came for 2 minutes after %d messages", r.name, last)
		}
		if err := r.alive(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// window is what a bridge did and used in a time.
type window struct {
	records, requests float64
	cpu, wall         float64 // seconds
	now, peak         int64   // resident bytes
}

func (w window) perMillion() float64 { return w.cpu / w.records * 1e6 }
func (w window) rate() float64       { return w.records / w.wall }

// measure watches r while during runs.
func (b *bench) measure(r *running, during func() error) (w window, err error) {
	from, err := b.pubsub.ask(order{})
	if err != nil {
		return w, err
	}
	began := time.Now()
	used, err := r.cpu()
	if err != nil {
		return w, err
	}
	if err := during(); err != nil {
		return w, err
	}
	to, err := b.pubsub.ask(order{})
	if err != nil {
		return w, err
	}
	w.wall = time.Since(began).Seconds()
	w.records, w.requests = float64(to.Messages-from.Messages), float64(to.Requests-from.Requests)
	by, err := r.cpu()
	if err != nil {
		return w, err
	}
	w.cpu = (by - used).Seconds()
	w.now, w.peak, err = r.Memory()
	return w, err
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
