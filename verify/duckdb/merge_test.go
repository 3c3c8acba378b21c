package duckdb

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// TestFinalTablesEqualTheTruth: whatever comes late, twice or out of order, and
// however runs overlap, each record is in the log once and each key has its
// last version.
func TestFinalTablesEqualTheTruth(t *testing.T) {
	formats := []warehouse.Format{warehouse.Raw, warehouse.EnvelopeBytes, warehouse.EnvelopeJSON}
	for i := range seeds(t) {
		seed, format := uint64(i+1), formats[i%len(formats)]
		t.Run(fmt.Sprintf("%s seed %d", format, seed), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := start(ctx, t, newWorld(t, seed, format), nil)
			s.play(ctx, t)
			for _, f := range append(s.midway, s.compare(ctx, t, s.warehouse)...) {
				t.Errorf("%s %d", f.what, f.n)
			}
			marks := count(ctx, t, s.warehouse.DB, "SELECT count(*) FROM "+s.warehouse.Table("current_rows")+" WHERE is_deleted")
			if marks != 0 {
				t.Errorf("%d marks of deletions are left when nothing can come any more", marks)
			}
			s.windows(t)
			t.Logf("%d records, %d deliveries, %d runs, %d pairs, %d cancelled", len(s.records), len(s.landings), s.runs, s.pairs, s.cancelled)
			if s.cancelled == 0 || s.cancelled == s.pairs {
				t.Error("the pairs do not overlap in different ways")
			}
		})
	}
}

// seeds is the number of histories: SEEDS, or one for each format and one more.
func seeds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SEEDS")
	if text == "" {
		return 4
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SEEDS=%q: want a number above 0", text)
	}
	return n
}

// windows checks that windows of the table function that touch add up.
func (s *simulation) windows(t *testing.T) {
	t.Helper()
	var want, got []string
	for _, r := range s.records {
		want = append(want, s.row(r))
	}
	for from := genesis.Add(-time.Hour); from.Before(genesis.Add(2 * hours)); from = from.Add(7 * time.Hour) {
		query := fmt.Sprintf("SELECT %s FROM %s(%s, %s, 40)", s.rows(), s.warehouse.Table("dedup_between"), stamp(from), stamp(from.Add(7*time.Hour)))
		got = append(got, texts(t.Context(), t, s.warehouse.DB, query)...)
	}
	for _, f := range differ("windows", want, got) {
		t.Errorf("%s %d", f.what, f.n)
	}
}
