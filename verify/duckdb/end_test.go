//go:build integration && unix

package duckdb

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/audit"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// TestEndToEnd is the whole way: real Kafka, the bridge killed again and again,
// the Pub/Sub emulator, a loader that writes what a BigQuery subscription would,
// the generated SQL in DuckDB, and the audit. Nothing is missing though the
// bridge was killed; of a hundred records that are taken away, exactly those are
// named; and the command lines that the audit prints bring them back.
func TestEndToEnd(t *testing.T) {
	parts := newParts(t)
	for _, format := range []warehouse.Format{warehouse.Raw, warehouse.EnvelopeBytes, warehouse.EnvelopeJSON} {
		t.Run(string(format), func(t *testing.T) {
			ctx := t.Context()
			s := newStage(t, parts, format)
			stop := s.produce(ctx)
			for range 3 {
				s.killed(ctx)
			}
			s.finish(ctx, stop)
			now := time.Now()
			s.merge(ctx, now)

			r := s.audit(ctx)
			s.show(r)
			c := r.Totals
			if r.Result != "whole" || c.Missing != 0 || c.Unconfirmed != 0 {
				t.Fatalf("%s, %d missing, %d unconfirmed", r.Result, c.Missing, c.Unconfirmed)
			}
			if c.Landed+c.Parked != int64(s.produced) || c.Parked == 0 || c.Holes == 0 || r.Log.Unmerged != 0 || r.Log.Repeated != 0 {
				t.Errorf("%d landed and %d parked of %d, %d holes, %d unmerged, %d repeated", c.Landed, c.Parked, s.produced, c.Holes, r.Log.Unmerged, r.Log.Repeated)
			}
			if n := count(ctx, t, s.DB, "SELECT count(*) FROM "+s.Table("log")); int64(n) != c.Landed {
				t.Errorf("%d records in the log, %d landed", n, c.Landed)
			}

			gone := s.lose(ctx, 100)
			r = s.audit(ctx)
			s.show(r)
			if named := named(r); r.Result != "missing" || r.Totals.Missing != 100 || named != gone {
				t.Fatalf("%s, missing %d:\n%s\nwant\n%s", r.Result, r.Totals.Missing, named, gone)
			}
			for _, line := range r.Mend {
				s.command(ctx, strings.Fields(line)[1:]...)
			}
			s.awaitBack(ctx, c.Landed)
			s.merge(ctx, time.Now())
			if n := count(ctx, t, s.DB, "SELECT count(*) FROM "+s.Table("log")); int64(n) != c.Landed {
				t.Errorf("%d records in the log after the replay, want %d", n, c.Landed)
			}
			if r = s.audit(ctx); r.Result != "whole" || r.Totals.Landed != c.Landed {
				t.Errorf("after the replay: %s, %d landed, %v", r.Result, r.Totals.Landed, r.Problems)
			}
		})
	}
}

// named lists missing offsets one by one.
func named(r *audit.Report) string {
	var out []string
	for _, p := range r.Partitions {
		for _, m := range p.MissingRanges {
			for o := m.From; o < m.To; o++ {
				out = append(out, fmt.Sprintf("%d/%d", p.Partition, o))
			}
		}
	}
	return strings.Join(out, " ")
}

// lose takes n records out of raw and out of the log, and returns their names as
// named does.
func (s *stage) lose(ctx context.Context, n int) string {
	s.t.Helper()
	all := texts(ctx, s.t, s.DB, `SELECT DISTINCT idempotency_key || ' ' || kafka_partition || '/' || kafka_offset
		FROM `+s.Table("records")+` ORDER BY ALL`)
	rng := rand.New(rand.NewPCG(6, 6))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	gone := make(map[string]bool)
	for _, line := range all[:n] {
		key, name, _ := strings.Cut(line, " ")
		gone[name] = true
		for _, from := range []string{"raw", "log"} {
			column := "idempotency_key"
			if from == "raw" {
				column = "json_extract_string(attributes, '$.idempotency_key')"
			}
			if _, err := s.DB.ExecContext(ctx, "DELETE FROM "+s.Table(from)+" WHERE "+column+" = ?", key); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	var out []string
	for p := range stagePartitions {
		for o := int64(0); o < 1_000_000 && len(out) < n; o++ {
			if name := fmt.Sprintf("%d/%d", p, o); gone[name] {
				out = append(out, name)
				delete(gone, name)
			}
		}
	}
	return strings.Join(out, " ")
}

// show prints what an audit said, as the command does.
func (s *stage) show(r *audit.Report) {
	s.t.Helper()
	var b strings.Builder
	if err := (&audit.Reports{Routes: []*audit.Report{r}}).Table(&b); err != nil {
		s.t.Fatal(err)
	}
	s.t.Log("\n" + b.String())
	if _, err := json.Marshal(r); err != nil {
		s.t.Fatal(err)
	}
}
