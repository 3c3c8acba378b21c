package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/warehouse"
	"github.com/mskbridge/mskbridge/internal/warehouse/remote"
)

// Limits of time of one question and of one statement, retries included.
const (
	askLimit       = 20 * time.Second
	statementLimit = 5 * time.Minute
)

// openWarehouse opens BigQuery for jobs that our own project pays; without one,
// that of the dataset does.
func openWarehouse(ctx context.Context, cfg *config.Config, project, location string) (*remote.Client, error) {
	payer := cmp.Or(cfg.Project, project)
	if payer == "" {
		return nil, fault.Exit(fault.CodeUsage, errors.New("no project is known for BigQuery: set BRIDGE_PROJECT, or name it in --dataset or BRIDGE_DATASET"))
	}
	client, err := remote.Open(ctx, remote.Options{Project: payer, Location: location, Emulator: cfg.BigQueryEmulator})
	if err != nil {
		return nil, fault.Exit(fault.CodeUnknown, err)
	}
	return client, nil
}

// compare says what of the generated objects is there, and how it differs.
func (r *sqlRequest) compare(ctx context.Context, out io.Writer, cfg *config.Config, specs []warehouse.Spec, objects []warehouse.Object) error {
	client, err := r.openDataset(ctx, cfg, specs[0])
	if err != nil {
		return err
	}
	defer client.Close()
	found := []remote.Finding{} // in JSON a list, also of nothing
	for _, spec := range specs {
		statements, err := warehouse.Render(spec, objects...)
		if err != nil {
			return fault.Exit(fault.CodeUsage, err)
		}
		for _, s := range statements {
			f, ok, err := look(ctx, client, s)
			if err != nil {
				return err
			}
			if ok {
				found = append(found, f)
			}
		}
	}
	return r.showFindings(out, found)
}

// look looks at one object. Who does not answer about one is not asked about all
// the others: that may take hours.
func look(ctx context.Context, client *remote.Client, s warehouse.Statement) (remote.Finding, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	f, ok, err := client.Compare(ctx, s)
	if f.Status == remote.Unclear && ctx.Err() != nil {
		err = fault.Exit(fault.CodeUnknown, errors.New(f.Problem))
	}
	return f, ok, err
}

// openDataset opens BigQuery where the dataset of a route is there.
func (r *sqlRequest) openDataset(ctx context.Context, cfg *config.Config, spec warehouse.Spec) (*remote.Client, error) {
	client, err := openWarehouse(ctx, cfg, spec.Project, r.location)
	if err != nil {
		return nil, err
	}
	if err := hasDataset(ctx, client, spec); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// hasDataset fails when the dataset is missing, or nobody answers. That it may
// not be asked for says nothing about the tables in it.
func hasDataset(ctx context.Context, client *remote.Client, spec warehouse.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	_, err := client.Dataset(ctx, spec.Project, spec.Dataset)
	switch {
	case err == nil || remote.KindOf(err) == remote.Denied:
		return nil
	case remote.KindOf(err) == remote.Missing:
		return fault.Exit(fault.CodeFailed, err)
	default:
		return fault.Exit(fault.CodeUnknown, err)
	}
}

func (r *sqlRequest) showFindings(out io.Writer, found []remote.Finding) error {
	counts := map[remote.Status]int{}
	for _, f := range found {
		counts[f.Status]++
	}
	result := remote.Same
	switch {
	case counts[remote.Different]+counts[remote.Absent] > 0:
		result = remote.Different
	case counts[remote.Unclear] > 0:
		result = remote.Unclear
	}
	if r.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(struct {
			Result  remote.Status    `json:"result"`
			Objects []remote.Finding `json:"objects"`
		}{result, found}); err != nil {
			return fmt.Errorf("printing differences: %w", err)
		}
	} else {
		printFindings(out, found)
		fmt.Fprintf(out, "\n%d objects: %d same, %d different, %d missing, %d not verifiable\n", len(found),
			counts[remote.Same], counts[remote.Different], counts[remote.Absent], counts[remote.Unclear])
	}
	switch result {
	case remote.Same:
		return nil
	case remote.Unclear:
		return fault.Exit(fault.CodeUnknown, errors.New("not everything in BigQuery could be looked at"))
	default:
		return fault.Exit(fault.CodeFailed, errors.New("BigQuery differs from what would be generated; mskbridge sql --apply creates what is missing and replaces views and procedures"))
	}
}

// printFindings prints a line for each object and, indented below it, what a
// person can act on.
func printFindings(out io.Writer, found []remote.Finding) {
	for _, f := range found {
		fmt.Fprintf(out, "%-9s  %s (%s)\n", f.Status, f.Object, f.Kind)
		printDetails(out, f)
	}
}

func printDetails(out io.Writer, f remote.Finding) {
	if f.Problem != "" {
		fmt.Fprintf(out, "           %s\n", plain(f.Problem))
	}
	for _, d := range f.Differences {
		fmt.Fprintf(out, "           %s: %s\n", f.Object, plain(d.String()))
		for _, line := range d.Lines {
			fmt.Fprintf(out, "             %s\n", plain(line))
		}
	}
	for _, note := range f.Notes {
		fmt.Fprintf(out, "           note: %s\n", plain(note))
	}
}
