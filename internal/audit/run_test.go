package audit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

func TestLimit(t *testing.T) {
	w := newWorld(t)
	w.partition(0, 10)
	w.lose(0, 3)
	w.estimates = 200_000 // of each of six, one of them twice
	reports, r := audited(t, w, nil)
	if len(w.asked) > 0 || fault.Code(reports.Err()) != fault.CodeUnknown || !strings.Contains(r.Problems[0], "would read 1.4 MB, the limit is 1.0 MB: raise --max-bytes") {
		t.Errorf("asked %v: %v", w.asked, r.Problems)
	}
	w.estimates = 100_000
	synctest.Test(t, func(t *testing.T) {
		reports, _ = audited(t, w, nil)
	})
	if reports.EstimatedBytes != 700_000 || reports.BilledBytes != 700_000 || w.limits[0] != 1_000_000 || w.limits[1] != 900_000 {
		t.Errorf("estimated %d, billed %d, limits %v", reports.EstimatedBytes, reports.BilledBytes, w.limits)
	}
}

func TestDryRunRunsNothing(t *testing.T) {
	w := newWorld(t)
	w.partition(0, 10)
	o := Options{Warehouse: w, Kafka: w, Cluster: "msk", Since: time.Now(), Spec: warehouse.Spec{Dataset: "kafka", Topic: "orders", Format: warehouse.Raw, RetentionDays: 7}}
	var said []string
	reports, err := Run(t.Context(), []Options{o, o}, 100, true, func(s string) { said = append(said, s) })
	if err != nil || len(w.asked) > 0 || reports.EstimatedBytes != 10_000 || reports.Result != "estimated" || reports.Err() != nil {
		t.Errorf("%v, asked %v, %+v", err, w.asked, reports)
	}
	if last := said[len(said)-1]; last != "reads 10 kB at most, limit 100 B (--max-bytes)" {
		t.Errorf("said %q", last)
	}
}

// TestStopped ends an audit that waits: it says what it found, and that it did
// not find out the rest.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.partition(0, 10)
		w.lose(0, 3)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		o := Options{
			Warehouse: w, Kafka: w, Cluster: "msk", Since: time.Now().Add(-time.Hour), Settle: time.Hour,
			Spec: warehouse.Spec{Dataset: "kafka", Topic: "orders", Format: warehouse.Raw, RetentionDays: 7},
		}
		reports, err := Run(ctx, []Options{o}, 1_000_000, false, func(string) {})
		if err != nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) || fault.Code(reports.Err()) != fault.CodeUnknown || seen(reports.Routes[0]) != "unconfirmed 0: 3" {
			t.Errorf("%v, %s, %v", err, seen(reports.Routes[0]), reports.Routes[0].Problems)
		}
	})
}
