package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
}

func newSQL() *cobra.Command {
	var r sqlRequest
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the BigQuery SQL of each route: tables, views, merge, audits",
		Long: `Print the SQL that turns what Pub/Sub's BigQuery subscriptions write into tables
with each record once. It dials nothing and changes nothing; the same routes
give the same text.

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
docs/bigquery.md says which object to query when, and what they cost.`,
		Example: `  mskbridge sql --object raw,views,log,current,merge | bq query --nouse_legacy_sql
  mskbridge sql --route orders --object schedule
  mskbridge sql --dataset my-project.events --out sql
  mskbridge sql --route clicks --no-current`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.routes, "route", nil, "Kafka topics of the routes; all without it")
	f.StringSliceVar(&r.objects, "object", nil, "objects to print; all without it")
	f.StringVar(&r.dataset, "dataset", "kafka", "DATASET or PROJECT.DATASET that holds the objects")
	f.StringVar(&r.out, "out", "", "folder to write to, one file for each statement; without it, standard output")
	f.IntVar(&r.retention, "retention-days", warehouse.DefaultRetentionDays, "message retention of the BigQuery subscriptions, 1 to 31: how late a copy can come")
	f.BoolVar(&r.noCurrent, "no-current", false, "keep no current row per record key, also in the merge")
	return cmd
}

func (r *sqlRequest) run(out io.Writer) error {
	objects, err := warehouse.ParseObjects(r.objects)
	if err != nil {
		return fault.Exit(fault.CodeUsage, fmt.Errorf("--object: %w", err))
	}
	specs, err := r.specs()
	if err != nil {
		return err
	}
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
func (r *sqlRequest) specs() ([]warehouse.Spec, error) {
	project, dataset, err := warehouse.CheckDataset(r.dataset)
	if err != nil {
		return nil, fault.Exit(fault.CodeUsage, fmt.Errorf("--dataset: %w", err))
	}
	cfg, err := routesConfig()
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
			Project:       cmp.Or(project, cfg.Project),
			Dataset:       dataset,
			Topic:         route.Topic,
			Format:        warehouse.FormatOf(route.Format, route.Value),
			RetentionDays: r.retention,
			NoCurrent:     r.noCurrent,
		})
	}
	return out, nil
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
	for _, topic := range topics {
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
