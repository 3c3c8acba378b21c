package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/audit"
	"github.com/mskbridge/mskbridge/internal/audit/kafka"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/logging"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// auditFlags are what the command line of audit says.
type auditFlags struct {
	routes                           []string
	dataset, since, maxBytes, output string
	settle                           time.Duration
	dryRun                           bool
}

// auditAsked is the same, understood.
type auditAsked struct {
	since time.Time
	limit int64
}

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit [--route R] [--since T]",
		Short: "Prove that what was committed is in BigQuery, or name what is missing",
		Long: `Compare what Kafka has of a route's topic with what landed in BigQuery, and name
each record that the group has committed and BigQuery lacks. An offset counts as
missing only when Kafka, asked again, still has a record there, and neither the
log nor a later look at the raw table knows it. It needs the objects of
"mskbridge sql", joins no group, and commits and publishes nothing.

What the queries would read is asked first and shown; nothing runs when it is
more than --max-bytes, and no query may bill more than what is left of it.
Progress is on standard error, the report on standard output. SIGTERM stops it
within 10 seconds; what was found is still printed.

docs/bigquery.md says what each column means and what to do about it.

Exit codes: 0 nothing is missing; 1 records are missing, with the command lines
that publish them again; 2 configuration or usage; 3 could not find out.`,
		Example: `  mskbridge audit --route orders
  mskbridge audit --route orders --since 2026-01-02T00:00:00Z --output json
  mskbridge audit --since 72h --max-bytes 200GB --dry-run`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			asked, err := f.parse(time.Now())
			if err != nil {
				return fault.Exit(fault.CodeUsage, fmt.Errorf("%w; see %q", err, cmd.CommandPath()+" --help"))
			}
			return f.run(cmd.Context(), asked, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.routes, "route", nil, "Kafka topics of the routes; all, one after another, without it")
	flags.StringVar(&f.dataset, "dataset", "", "DATASET or PROJECT.DATASET that holds the objects; BRIDGE_DATASET, else kafka, without it")
	flags.StringVar(&f.since, "since", "26h", "RFC 3339 time of the first records, or how long ago that is")
	flags.DurationVar(&f.settle, "settle", 2*time.Minute, "how long to wait for rows on their way to BigQuery; 0 for not at all")
	flags.StringVar(&f.maxBytes, "max-bytes", "50GB", "bytes that BigQuery may bill, of all queries together")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what the queries would read, and run none")
	flags.StringVar(&f.output, "output", "table", "table or json")
	return cmd
}

// parse understands what can be without the configuration.
func (f *auditFlags) parse(now time.Time) (asked auditAsked, err error) {
	if f.output != "table" && f.output != "json" {
		return asked, fmt.Errorf("--output %q is not table or json", f.output)
	}
	if f.settle < 0 {
		return asked, fmt.Errorf("--settle %s is negative", f.settle)
	}
	bytes, err := humanize.ParseBytes(f.maxBytes)
	if err != nil || bytes == 0 || bytes > 1<<62 || strings.Contains(f.maxBytes, ",") {
		return asked, fmt.Errorf("--max-bytes %q is not a size, such as 50GB", f.maxBytes)
	}
	asked.limit = int64(bytes)
	if ago, err := time.ParseDuration(f.since); err == nil {
		asked.since = now.Add(-ago).Truncate(time.Second)
	} else if asked.since, err = time.Parse(time.RFC3339, f.since); err != nil {
		return asked, fmt.Errorf("--since %q is neither an RFC 3339 time, such as 2026-01-02T15:04:05Z, nor how long ago, such as 24h", f.since)
	}
	if !asked.since.Before(now) {
		return asked, fmt.Errorf("--since %s lies ahead", f.since)
	}
	if now.Sub(asked.since) < time.Minute {
		return asked, fmt.Errorf("--since %s is less than a minute ago: an audit of so little says nothing", f.since)
	}
	if asked.since.Before(time.Unix(0, 0)) { // Kafka takes some of these for its log's ends
		return asked, fmt.Errorf("--since %s lies before 1970", f.since)
	}
	return asked, nil
}

func (f *auditFlags) run(ctx context.Context, asked auditAsked, out, progress io.Writer) error {
	cfg, err := config.Load()
	if err != nil {
		return err
	}
	project, dataset, err := datasetOf(f.dataset, cfg)
	if err != nil {
		return err
	}
	routes, err := pickRoutes(cfg.Routes, f.routes)
	if err != nil {
		return err
	}
	if err := cfg.ResolveProject(ctx, config.MetadataProject); err != nil {
		return err
	}
	bq, err := openWarehouse(ctx, cfg, project, "")
	if err != nil {
		return err
	}
	defer bq.Close()
	log, end := begin(ctx, cfg, progress)
	defer end()
	in, err := consumerOptions(ctx, cfg, log)
	if err != nil {
		return err
	}
	in.Events, in.ClientLog = logging.Events(log), log //nolint:contextcheck // events come without a context
	base := warehouse.Spec{Project: cmp.Or(project, cfg.Project), Dataset: dataset, RetentionDays: warehouse.DefaultRetentionDays}
	options := auditOptions(routes, base, asked, f.settle, bq, in)
	reports, err := audit.Run(ctx, options, asked.limit, f.dryRun, func(s string) { fmt.Fprintln(progress, s) })
	if err != nil {
		return fault.Exit(fault.CodeUsage, err)
	}
	show := reports.Table
	if f.output == "json" {
		show = reports.JSON
	}
	if err := show(out); err != nil {
		return fault.Exit(fault.CodeUnknown, err) // 1 would say that records are missing
	}
	return reports.Err()
}

// auditOptions joins routes and both sides. base lacks topic and format.
func auditOptions(routes []config.Route, base warehouse.Spec, asked auditAsked, settle time.Duration, w audit.Warehouse, in consumer.Options) []audit.Options {
	source := &kafka.Side{Options: in, Stores: make(map[string]bool)}
	out := make([]audit.Options, 0, len(routes))
	for _, r := range routes {
		source.Stores[r.Topic] = r.OnOversize == config.OnOversizeStore
		base.Topic, base.Format = r.Topic, warehouse.FormatOf(r.Format, r.Value)
		o := audit.Options{
			Warehouse: w, Kafka: source, Spec: base, Cluster: in.Cluster, Since: asked.since, Settle: settle,
			Latest: r.Start == config.StartLatest, Skip: make(map[int32][]audit.Range),
		}
		if at, err := time.Parse(time.RFC3339, r.Start); err == nil {
			o.Begin = at
		}
		for _, s := range r.Skip {
			o.Skip[s.Partition] = append(o.Skip[s.Partition], audit.Range{From: s.From, To: s.To})
		}
		out = append(out, o)
	}
	return out
}
