package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/warehouse"
	"github.com/mskbridge/mskbridge/internal/warehouse/remote"
)

// tablesLimit bounds all questions to BigQuery, retries included.
const tablesLimit = 15 * time.Second

// lookAtTables looks at the raw table of each route, when a dataset is set.
// What it cannot find out is no error: the bridge itself needs no BigQuery, and
// need not be allowed to look at it.
func (p *preflight) lookAtTables(ctx context.Context) ([]remote.Finding, error) {
	if p.cfg.Dataset == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tablesLimit)
	defer cancel()
	project, dataset, err := datasetOf("", p.cfg)
	if err != nil {
		return nil, err
	}
	client, err := openWarehouse(ctx, p.cfg, project, "")
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := hasDataset(ctx, client, warehouse.Spec{Project: project, Dataset: dataset}); err != nil {
		return nil, err
	}
	var found []remote.Finding
	for _, r := range p.cfg.Routes {
		statements, err := warehouse.Render(warehouse.Spec{
			Project: project, Dataset: dataset, Topic: r.Topic,
			Format: warehouse.FormatOf(r.Format, r.Value), RetentionDays: warehouse.DefaultRetentionDays,
		}, warehouse.ObjectRaw)
		if err != nil {
			return nil, err
		}
		f, _, err := client.Compare(ctx, statements[0])
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	return found, nil
}

// bigquery adds what is about raw tables. Of their differences only columns
// count: partitions and their expiration are for sql --check, which is told the
// retention.
func (p *preflight) bigquery(found []remote.Finding, err error) {
	if p.cfg.Dataset == "" {
		return
	}
	switch {
	case remote.KindOf(err) == remote.Missing:
		p.Add(sectionBQ, "dataset "+p.cfg.Dataset, check.Fail, "does not exist", remote.AdviceOf(err))
	case err != nil && fault.Code(err) == fault.CodeUsage:
		p.Add(sectionBQ, "dataset "+p.cfg.Dataset, check.Fail, oneLine(err), "set BRIDGE_PROJECT, or name the project in BRIDGE_DATASET")
	case err != nil:
		p.Add(sectionBQ, "dataset "+p.cfg.Dataset, check.Unknown, "not verifiable: "+oneLine(err), "")
	}
	for _, f := range found {
		what := "table " + f.Object
		var wrong []string
		for _, d := range f.Differences {
			if strings.HasPrefix(d.What, "column ") || d.What == remote.Itself {
				wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", d.What, d.Have, d.Want))
			}
		}
		switch {
		case f.Status == remote.Unclear:
			p.Add(sectionBQ, what, check.Unknown, "not verifiable: "+plain(f.Problem), "")
		case f.Status == remote.Absent:
			p.Add(sectionBQ, what, check.Fail, "does not exist: a BigQuery subscription has nowhere to write", "mskbridge sql --apply, or the statements of mskbridge sql")
		case len(wrong) > 0:
			p.Add(sectionBQ, what, check.Fail, plain(strings.Join(wrong, "; ")), "mskbridge sql --check says how to mend it")
		default:
			p.Add(sectionBQ, what, check.OK, "has the columns that a subscription writes", "")
		}
	}
}
