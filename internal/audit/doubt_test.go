package audit

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// Nothing of these may be called whole.
func TestDoubt(t *testing.T) {
	lost := func(w *world) {
		for o := range int64(100) {
			w.lose(0, o)
		}
	}
	for _, tt := range []struct {
		name, says string
		latest     bool
		prepare    func(*world)
	}{
		{"nothing of a route that starts at latest landed", "100 offsets before the first that landed", true, lost},
		{"no partition has a commit", "BRIDGE_GROUP", false, func(w *world) { w.logs[0].committed = -1 }},
		{"all landed under another alias", "BRIDGE_CLUSTER", false, func(w *world) {
			lost(w)
			w.others = []warehouse.Row{{
				"kafka_cluster": "main", "kafka_topic_id": w.id, "kafka_partition": int64(0), "is_expected": false,
				"landed_records": int64(100), "first_offset": int64(0), "last_offset": int64(99),
			}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.partition(0, 100)
			tt.prepare(w)
			reports, r := audited(t, w, func(o *Options) { o.Latest, o.Settle = tt.latest, 0 })
			if code := fault.Code(reports.Err()); code != fault.CodeUnknown || len(r.Mend) > 0 || !strings.Contains(strings.Join(r.Problems, "\n"), tt.says) {
				t.Errorf("exit code %d, %v, %v", code, r.Problems, r.Mend)
			}
		})
	}
}

func TestATopicWithoutRecordsNeedsNoCommit(t *testing.T) {
	w := newWorld(t)
	w.partition(0, 0).committed = -1
	if reports, r := audited(t, w, nil); reports.Err() != nil {
		t.Errorf("%v: %v", reports.Err(), r.Problems)
	}
}

// What is under way is more than one reading looks at, and ends in a marker.
func TestHolesBetweenWhatLandsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.bound = together
		l := w.partition(0, 3*together)
		for o := range l.end {
			if w.raw[0][o].at = time.Now().Add(20 * time.Second); o%1000 == 999 {
				l.holes[o] = true
				w.lose(0, o)
			}
		}
		w.lose(0, 25_000)
		reports, r := audited(t, w, nil)
		want := []Range{{25_000, 25_001}}
		if fault.Code(reports.Err()) != fault.CodeFailed || !slices.Equal(r.Partitions[0].MissingRanges, want) || r.Totals.Holes != 30 {
			t.Errorf("%+v, %v", r.Totals, r.Partitions[0].MissingRanges)
		}
	})
}

// What landed, between two candidates, is no record that is missing.
func TestOnlyWhatIsMissingStandsForTheRest(t *testing.T) {
	w := newWorld(t)
	w.bound = 50
	l := w.partition(0, 200)
	for _, o := range []int64{20, 100} {
		l.holes[o] = true
		w.lose(0, o)
	}
	if reports, r := audited(t, w, func(o *Options) { o.Settle = 0 }); fault.Code(reports.Err()) != fault.CodeUnknown || seen(r) != "unconfirmed 0: 100, holes 0: 20" {
		t.Errorf("%v, %s", reports.Err(), seen(r))
	}
}

func TestADryRunSaysWhatItCannotFindOut(t *testing.T) {
	up, down := newWorld(t), newWorld(t)
	up.partition(0, 10)
	down.kafkaErr = errDown
	var all []Options
	for _, w := range []*world{up, down} {
		all = append(all, Options{Warehouse: w, Kafka: w, Cluster: "msk", Since: time.Now(), Spec: warehouse.Spec{Dataset: "kafka", Topic: "orders", Format: warehouse.Raw, RetentionDays: 7}})
	}
	reports, err := Run(t.Context(), all, 1_000_000, true, func(string) {})
	if err != nil || fault.Code(reports.Err()) != fault.CodeUnknown {
		t.Errorf("%v, %v", err, reports.Err())
	}
}

// Anybody who may publish to the topic writes a row, whose text is on the report.
func TestRowsDoNotSteerTheTerminal(t *testing.T) {
	w := newWorld(t)
	w.partition(0, 10)
	w.queryErr[auditRepeated] = errors.New("\x1b[2J\u009b2J" + strings.Repeat("x", 1<<20))
	w.others = []warehouse.Row{{
		"kafka_cluster": "\x1b[2J\nwhole: 5 of 5", "kafka_topic_id": "before", "kafka_partition": int64(0), "is_expected": false,
		"landed_records": int64(7), "first_offset": int64(0), "last_offset": int64(9),
	}}
	reports, _ := audited(t, w, nil)
	var out strings.Builder
	if err := reports.Table(&out); err != nil || strings.ContainsAny(out.String(), "\x1b\u009b") || strings.Contains(out.String(), "\nwhole: 5 of 5") || out.Len() > 20<<10 {
		t.Errorf("%v, %d bytes: %.2000q", err, out.Len(), out.String())
	}
}
