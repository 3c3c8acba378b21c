package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// sqlRequest is what the flags of sql ask for.
type sqlRequest struct {
	routes    []string
	objects   []string
	dataset   string
	out       string
	retention int
	noCurrent bool

	check, apply, dryRun, noDeadLetter bool
	output, location                   string
}

func newSQL() *cobra.Command {
	var r sqlRequest
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the BigQuery SQL of each route, compare it with what is there, or apply it",
		Long: `Print the SQL that turns what Pub/Sub's BigQuery subscriptions write into tables
with each record once. Without --check and --apply it dials nothing and changes
nothing; the same routes give the same text.

It reads the routes from the environment or the routes file as run does, and
needs no BRIDGE_BROKERS. The project is that of --dataset, else BRIDGE_PROJECT
or GOOGLE_CLOUD_PROJECT, else that of the session which runs the SQL.

Objects, in the order in which they are printed and must be created:
  raw       the table that the subscription writes
  views     typed columns, rejects, records once (a view and a table function)
  log       table with each record once, and what its merge remembers
  current   current row of each record key, kept by the merge and as a view
  merge     the procedure that fills log and current
  schedule  the call to run every 5 to 60 minutes
  audit     queries with parameters that look for what is missing or wrong

All statements but schedule and audit may be run again at any time.
docs/bigquery.md says which object to query when, and what they cost.

--check compares what exists in BigQuery with what would be generated; what
--apply --dry-run says includes the subscriptions of Pub/Sub. --apply creates
what is missing, replaces views and procedures that differ, and makes the
subscription that writes each raw table; it never alters or drops a table. A
second --apply changes nothing.

Exit codes: 0 printed, the same, or applied; 1 something is missing or differs,
or applying failed; 2 configuration or usage; 3 could not find out.`,
		Example: `  mskbridge sql --object raw,views,log,current,merge | bq query --nouse_legacy_sql
  mskbridge sql --route orders --object schedule
  mskbridge sql --dataset my-project.events --out sql
  mskbridge sql --route clicks --no-current
  mskbridge sql --check
  mskbridge sql --apply --dry-run`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.routes, "route", nil, "Kafka topics of the routes; all without it")
	f.StringSliceVar(&r.objects, "object", nil, "objects to print; all without it")
	f.StringVar(&r.dataset, "dataset", "", "DATASET or PROJECT.DATASET that holds the objects; else BRIDGE_DATASET, else kafka")
	f.StringVar(&r.out, "out", "", "folder to write to, one file for each statement; without it, standard output")
	f.IntVar(&r.retention, "retention-days", warehouse.DefaultRetentionDays, "message retention of the BigQuery subscriptions, 1 to 31: how late a copy can come")
	f.BoolVar(&r.noCurrent, "no-current", false, "keep no current row per record key, also in the merge")
	f.BoolVar(&r.check, "check", false, "compare what exists in BigQuery with what would be generated")
	f.BoolVar(&r.apply, "apply", false, "create what is missing, replace views and procedures that differ, make the subscriptions")
	f.BoolVar(&r.dryRun, "dry-run", false, "with --apply: say what would be done, and do nothing")
	f.BoolVar(&r.noDeadLetter, "no-dead-letter", false, "with --apply: make subscriptions of routes without dead_letter; what does not fit is delivered again until the retention ends")
	f.StringVar(&r.output, "output", "table", "with --check: table or json")
	f.StringVar(&r.location, "location", "", "with --apply: where BigQuery's jobs run, for example EU; without it, where the dataset is")
	return cmd
}

func (r *sqlRequest) run(ctx context.Context, out io.Writer) error {
	objects, err := r.objectsAsked()
	if err != nil {
		return fault.Exit(fault.CodeUsage, err)
	}
	cfg, err := routesConfig()
	if err != nil {
		return err
	}
	specs, err := r.specs(cfg)
	if err != nil {
		return err
	}
	if (r.check || r.apply) && cfg.NeedsProject() {
		if err := cfg.ResolveProject(ctx, config.MetadataProject); err != nil {
			return err
		}
		if specs, err = r.specs(cfg); err != nil {
			return err
		}
	}
	switch {
	case r.check:
		return r.compare(ctx, out, cfg, specs, objects)
	case r.apply:
		return r.provision(ctx, out, cfg, specs, objects)
	default:
		return r.print(out, specs, objects)
	}
}

// objectsAsked checks the flags against each other.
func (r *sqlRequest) objectsAsked() ([]warehouse.Object, error) {
	objects, err := warehouse.ParseObjects(r.objects)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--object: %w", err)
	case r.retention < 1 || r.retention > 31:
		return nil, fmt.Errorf("--retention-days %d: the retention of a subscription is 1 to 31 days", r.retention)
	case r.check && r.apply:
		return nil, errors.New("--check and --apply are two things: --apply --dry-run says what would be done")
	case (r.check || r.apply) && r.out != "":
		return nil, errors.New("--out is for SQL that is only printed")
	case r.apply && len(objects) > 0 && !slices.ContainsFunc(objects, warehouse.Object.Exists):
		return nil, errors.New("--apply has nothing to do with schedule and audit: they are run, not created")
	case !r.apply && (r.dryRun || r.noDeadLetter):
		return nil, errors.New("--dry-run and --no-dead-letter come with --apply")
	case r.output != "table" && r.output != "json":
		return nil, fmt.Errorf("--output %q is not table or json", r.output)
	case !r.check && r.output != "table":
		return nil, errors.New("--output json comes with --check")
	case !r.apply && r.location != "":
		return nil, errors.New("--location comes with --apply: only that runs jobs")
	}
	return objects, nil
}

func (r *sqlRequest) print(out io.Writer, specs []warehouse.Spec, objects []warehouse.Object) error {
	for _, spec := range specs {
		statements, err := warehouse.Render(spec, objects...)
		if err != nil {
			return fault.Exit(fault.CodeUsage, err)
		}
		if r.out != "" {
			err = writeStatements(filepath.Join(r.out, warehouse.Stem(spec.Topic)), statements)
		} else {
			err = printStatements(out, statements)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// specs joins the routes that are asked for with the flags.
func (r *sqlRequest) specs(cfg *config.Config) ([]warehouse.Spec, error) {
	project, dataset, err := datasetOf(r.dataset, cfg)
	if err != nil {
		return nil, err
	}
	routes, err := pickRoutes(cfg.Routes, r.routes)
	if err != nil {
		return nil, err
	}
	var out []warehouse.Spec
	for _, route := range routes {
		out = append(out, warehouse.Spec{
			Project:       project,
			Dataset:       dataset,
			Topic:         route.Topic,
			Format:        warehouse.FormatOf(route.Format, route.Value),
			RetentionDays: r.retention,
			NoCurrent:     r.noCurrent,
		})
	}
	return out, nil
}

// defaultDataset is where neither --dataset nor BRIDGE_DATASET says.
const defaultDataset = "kafka"

// datasetOf returns where a route's tables are: what --dataset says, else
// BRIDGE_DATASET, else the default. project is "" where none is known.
func datasetOf(flag string, cfg *config.Config) (project, dataset string, err error) {
	project, dataset, err = warehouse.CheckDataset(cmp.Or(flag, cfg.Dataset, defaultDataset))
	if err != nil {
		return "", "", fault.Exit(fault.CodeUsage, fmt.Errorf("--dataset or BRIDGE_DATASET: %w", err))
	}
	return cmp.Or(project, cfg.Project), dataset, nil
}

// routesConfig is the configuration for a command that is about routes alone:
// where no brokers are set, nothing about them is asked for.
func routesConfig() (*config.Config, error) {
	s, err := config.Read()
	if err != nil {
		return nil, err
	}
	if len(s.Brokers) == 0 {
		s.Brokers = []string{"localhost:9092"}
		if s.Auth == config.AuthIAM {
			s.Auth = config.AuthPlaintext
		}
	}
	return config.New(s)
}

// pickRoutes returns the routes of the topics in their own order, all for none.
func pickRoutes(all []config.Route, topics []string) ([]config.Route, error) {
	if len(topics) == 0 {
		return all, nil
	}
	known := make(map[string]config.Route, len(all))
	names := make([]string, 0, len(all))
	for _, route := range all {
		known[route.Topic] = route
		names = append(names, route.Topic)
	}
	var out []config.Route
	for i, topic := range topics {
		if slices.Contains(topics[:i], topic) {
			continue
		}
		route, ok := known[topic]
		if !ok {
			return nil, fault.Exit(fault.CodeUsage, fmt.Errorf("--route: no route has the topic %q; there are %s", topic, strings.Join(names, ", ")))
		}
		out = append(out, route)
	}
	return out, nil
}

func printStatements(out io.Writer, statements []warehouse.Statement) error {
	for _, s := range statements {
		if _, err := fmt.Fprintln(out, s.SQL); err != nil {
			return fmt.Errorf("printing SQL: %w", err)
		}
	}
	return nil
}

// writeStatements writes one file for each statement. Names sort in the order
// in which the statements must run, whichever objects were asked for.
func writeStatements(folder string, statements []warehouse.Statement) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // SQL is no secret
		return fmt.Errorf("making the folder for SQL: %w", err)
	}
	for _, s := range statements {
		file := filepath.Join(folder, fmt.Sprintf("%02d_%s.sql", s.Position, s.Name))
		if err := os.WriteFile(file, []byte(s.SQL), 0o644); err != nil { //nolint:gosec // SQL is no secret
			return fmt.Errorf("writing SQL: %w", err)
		}
	}
	return nil
}
