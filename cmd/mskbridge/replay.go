package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/logging"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/sink"
)

// replayFlags are what the command line of replay says.
type replayFlags struct {
	route, since, until, output string
	partition                   int32
	from, to                    int64
	rate                        int
	dryRun                      bool
}

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --route R (--partition P --from N --to M | --since T --until T)",
		Short: "Publish a range again, under the same keys",
		Long: `Publish a range of a route's topic again, under the idempotency keys that its
records have for ever. It joins no group and never touches committed offsets,
so that it may run beside the bridge. Copies go where the route's records go.

--from is the first offset, --to the one after the last. --since and --until
are RFC 3339 times, of all partitions: from the first record that is not before
one up to the first that is not before the other. What "skip" leaves out of a
route is published, too. Kafka's end of the range is looked up first, so that
it ends under load; it says which offsets Kafka no longer has.

Progress is on standard error, the result on standard output. SIGTERM stops it
within 10 seconds; it then says where to go on.

Exit codes: 0 all of the range that Kafka has is published or parked; 1 stopped
or failed; 2 configuration, usage or a range that cannot be.`,
		Example: `  mskbridge replay --route orders --partition 3 --from 120000 --to 130000 --dry-run
  mskbridge replay --route orders --since 2026-01-02T09:00:00Z --until 2026-01-02T10:00:00Z --rate 2000`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			asked, err := f.parse(cmd.Flags().Changed)
			if err != nil {
				return fault.Exit(fault.CodeUsage, fmt.Errorf("%w; see %q", err, cmd.CommandPath()+" --help"))
			}
			return f.run(cmd.Context(), asked, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.route, "route", "", "Kafka topic of the route")
	flags.Int32Var(&f.partition, "partition", 0, "partition")
	flags.Int64Var(&f.from, "from", 0, "first offset")
	flags.Int64Var(&f.to, "to", 0, "offset after the last one")
	flags.StringVar(&f.since, "since", "", "time of the first records")
	flags.StringVar(&f.until, "until", "", "time after that of the last ones")
	flags.IntVar(&f.rate, "rate", 0, "records a second at most, 0 for no limit")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read and count, but publish nothing")
	flags.StringVar(&f.output, "output", "table", "table or json")
	return cmd
}

// parse turns the flags into a range.
func (f *replayFlags) parse(given func(string) bool) (r consumer.Range, err error) {
	offsets := given("partition") || given("from") || given("to")
	times := given("since") || given("until")
	switch {
	case f.output != "table" && f.output != "json":
		return r, fmt.Errorf("--output %q is not table or json", f.output)
	case f.route == "":
		return r, errors.New("--route is required")
	case f.rate < 0:
		return r, fmt.Errorf("--rate %d is negative", f.rate)
	case offsets == times:
		return r, errors.New("either --partition, --from and --to or --since and --until say what to replay")
	case times:
		if r.Since, err = time.Parse(time.RFC3339, f.since); err == nil {
			r.Until, err = time.Parse(time.RFC3339, f.until)
		}
		if err != nil {
			return r, errors.New("--since and --until are RFC 3339 times, such as 2026-01-02T15:04:05Z")
		}
		return r, nil
	case !given("partition") || !given("from") || !given("to"):
		return r, errors.New("--partition, --from and --to go together")
	default:
		return consumer.Range{Partition: f.partition, From: f.from, To: f.to}, nil
	}
}

// config is the configuration, if it has the route and there can be the range.
func (f *replayFlags) config(asked consumer.Range) (*config.Config, error) {
	if err := asked.Check(); err != nil {
		return nil, fault.Exit(fault.CodeUsage, err)
	}
	cfg, err := config.Load()
	if err != nil {
		return nil, err
	}
	_, err = pickRoutes(cfg.Routes, []string{f.route})
	return cfg, err
}

func (f *replayFlags) run(ctx context.Context, asked consumer.Range, out, progress io.Writer) error {
	cfg, err := f.config(asked)
	if err != nil {
		return err
	}
	if err := cfg.ResolveProject(ctx, config.MetadataProject); err != nil {
		return err
	}
	log, end := begin(ctx, cfg, progress)
	defer end()
	in, err := consumerOptions(ctx, cfg, log)
	if err != nil {
		return err
	}
	in.Events, in.ClientLog = logging.Events(log), log //nolint:contextcheck // events come without a context
	view := newReplayView(progress)
	var to outlet = &tally{}
	if !f.dryRun {
		options := sinkOptions(cfg)
		options.Events = in.Events
		opened := stores{}
		defer opened.close(log)
		if err := opened.attach(ctx, cfg, options.Routes); err != nil {
			return err
		}
		s, err := sink.New(ctx, options)
		if err != nil {
			return err
		}
		defer closeSink(s, log)
		to = &live{Sink: s, topic: f.route}
	}
	began := time.Now()
	done, err := consumer.Replay(ctx, consumer.ReplayOptions{
		Options: in, Range: asked, Topic: f.route, Rate: f.rate,
		Progress: func(r *consumer.Replayed) { view.draw(r, to.trouble(), time.Since(began)) },
	}, to)
	view.end()
	if done == nil {
		return err
	}
	result := newReplayResult(f, done, to)
	result.Complete, result.Seconds = err == nil, time.Since(began).Seconds()
	if showErr := result.write(out, f.output); showErr != nil {
		return showErr
	}
	if err != nil {
		return fmt.Errorf("%w; go on with: %s", err, strings.Join(result.rest(), "; "))
	}
	return nil
}

// outlet is where a replay publishes.
type outlet interface {
	consumer.Publisher
	counts() (published, parked int64)
	trouble() string // why it does not publish just now
}

// live is the destination of the route.
type live struct {
	*sink.Sink
	topic string
}

func (l *live) route() sink.RouteSnapshot {
	for _, r := range l.Snapshot().Routes {
		if r.Topic == l.topic {
			return r
		}
	}
	return sink.RouteSnapshot{}
}

func (l *live) counts() (published, parked int64) {
	r := l.route()
	return r.Published, r.Parked
}

func (l *live) trouble() string {
	switch r := l.route(); r.State {
	case sink.Held:
		return "held: " + r.Reason
	case sink.Retrying:
		return "retrying: " + r.LastError
	default:
		return ""
	}
}

// tally takes everything and publishes nothing: the outlet of a dry run.
type tally struct{ published, parked atomic.Int64 }

// Publish counts what would be published, or parked for what the record is.
func (t *tally) Publish(_ context.Context, b *message.Batch) error {
	if b.Refusal != nil {
		t.parked.Add(int64(b.Len()))
	} else {
		t.published.Add(int64(b.Len()))
	}
	return nil
}

func (t *tally) counts() (published, parked int64) { return t.published.Load(), t.parked.Load() }
func (t *tally) trouble() string                   { return "" }

// replayResult is what a replay ends with.
type replayResult struct {
	Route     string  `json:"route"`
	DryRun    bool    `json:"dry_run"`
	Complete  bool    `json:"complete"`
	Seconds   float64 `json:"seconds"`
	Records   int64   `json:"records"`
	Bytes     int64   `json:"bytes"`
	Published int64   `json:"published"`
	Parked    int64   `json:"parked"`
	Holes     int64   `json:"holes"`
	Gone      int64   `json:"gone"`
	Ahead     int64   `json:"ahead"`
	*consumer.Replayed
}

func newReplayResult(f *replayFlags, done *consumer.Replayed, to outlet) *replayResult {
	r := &replayResult{Route: f.route, DryRun: f.dryRun, Replayed: done}
	r.Published, r.Parked = to.counts()
	for _, p := range done.Partitions {
		r.Records += p.Records
		r.Bytes += p.Bytes
		r.Holes += p.Holes
		r.Gone += p.Gone
		r.Ahead += p.Ahead
	}
	return r
}

// rest are the commands that would replay what is not done.
func (r *replayResult) rest() []string {
	var rest []string
	for _, p := range r.Partitions {
		if p.Next < p.End {
			rest = append(rest, fmt.Sprintf("mskbridge replay --route %s --partition %d --from %d --to %d", r.Route, p.Partition, p.Next, p.End))
		}
	}
	return rest
}

func (r *replayResult) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
