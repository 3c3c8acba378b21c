package remote

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/bigquery"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// Status is how an object is, compared with what would be generated.
type Status string

// The states. Unclear is what could not be asked.
const (
	Same      Status = "same"
	Absent    Status = "missing"
	Different Status = "different"
	Unclear   Status = "unclear"
)

// Finding is what Compare found out about the object of one statement.
type Finding struct {
	Object      string       `json:"object"` // "kafka.orders_log"
	Kind        string       `json:"kind"`   // "table", "view", "table function", "procedure"
	Status      Status       `json:"status"`
	Differences []Difference `json:"differences,omitempty"`
	Notes       []string     `json:"notes,omitempty"` // what may stay as it is
	Problem     string       `json:"problem,omitempty"`

	// Replaceable is that running the statement makes it the same: of views and
	// routines, whose text is all there is. CREATE TABLE IF NOT EXISTS alters
	// nothing.
	Replaceable bool `json:"-"`
}

// Compare looks at the object that a statement makes. ok is false for one that
// makes nothing. Whitespace, comments, descriptions and labels are not compared.
// Columns beyond the generated ones are notes where they may be NULL.
func (c *Client) Compare(ctx context.Context, s warehouse.Statement) (f Finding, ok bool, err error) {
	d, err := declare(s)
	if err != nil || d == nil {
		return Finding{}, false, err
	}
	f = Finding{Object: d.String(), Kind: d.kind, Replaceable: d.kind != kindTable}
	switch d.kind {
	case kindTable, kindView:
		var have *bigquery.TableMetadata
		have, err = c.dataset(d).Table(d.id).Metadata(ctx)
		switch {
		case err != nil:
		case d.kind == kindTable:
			f.Differences, f.Notes = compareTable(d, have)
		default:
			f.Differences = compareView(d, have)
			f.Replaceable = have.Type == bigquery.ViewTable
		}
	default:
		var have *bigquery.RoutineMetadata
		if have, err = c.dataset(d).Routine(d.id).Metadata(ctx); err == nil {
			f.Differences = compareRoutine(d, have)
		}
	}
	switch err := c.explain(fmt.Sprintf("looking at %s %s", d.kind, d), err); {
	case KindOf(err) == Missing:
		f.Status = Absent
	case err != nil:
		f.Status, f.Problem = Unclear, err.Error()
	case len(f.Differences) > 0:
		f.Status = Different
	default:
		f.Status = Same
	}
	return f, true, nil
}

func (c *Client) dataset(d *declaration) *bigquery.Dataset {
	if d.project == "" {
		return c.bq.Dataset(d.dataset)
	}
	return c.bq.DatasetInProject(d.project, d.dataset)
}

// Dataset returns the location of a dataset, project "" for that of the
// client. It is Missing with the command that makes it, which is never done
// here: a location cannot be changed later, and is for the owner to choose.
func (c *Client) Dataset(ctx context.Context, project, dataset string) (location string, err error) {
	d := c.dataset(&declaration{project: project, dataset: dataset})
	have, err := d.Metadata(ctx)
	if err == nil {
		return have.Location, nil
	}
	name := d.ProjectID + "." + d.DatasetID
	err = c.explain("looking at dataset "+name, err)
	if p, ok := errors.AsType[*Error](err); ok && p.Kind == Missing {
		p.Advice = c.create("dataset", name)
	}
	return "", err
}
