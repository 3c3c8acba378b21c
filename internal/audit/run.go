package audit

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
)

// Run audits routes, one after another: first it asks what all queries would
// read, and goes on only when that is at most limit bytes and dry is not set.
// progress is told what begins that may take long. What could not be found out is in the
// reports; an error is about options that do not fit together.
func Run(ctx context.Context, routes []Options, limit int64, dry bool, progress func(string)) (*Reports, error) {
	reports := &Reports{LimitBytes: limit, DryRun: dry}
	var all []*auditor
	for _, o := range routes {
		a, err := plan(ctx, o, func(s string) { progress(o.Spec.Topic + ": " + s) })
		if err != nil {
			return nil, err
		}
		all = append(all, a)
		reports.Routes = append(reports.Routes, a.report)
		reports.EstimatedBytes += a.report.EstimatedBytes
	}
	bytes := func(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }
	if reports.EstimatedBytes > 0 {
		progress(fmt.Sprintf("reads %s at most, limit %s (--max-bytes)", bytes(reports.EstimatedBytes), bytes(limit)))
	}
	left := limit
	for _, a := range all {
		switch {
		case dry:
			a.report.judge()
			if a.report.Result == whole {
				a.report.Result = estimated
			}
		case reports.EstimatedBytes > limit:
			a.refuse(fmt.Errorf("the queries would read %s, the limit is %s: raise --max-bytes, or choose a later --since", bytes(reports.EstimatedBytes), bytes(limit)))
		default:
			a.run(ctx, left)
			left -= a.report.BilledBytes
		}
	}
	reports.judge()
	return reports, nil
}
