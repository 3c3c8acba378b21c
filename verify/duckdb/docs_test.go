package duckdb

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// TestRebuildOfTheDocs executes the script that docs/bigquery.md prints, after
// the current rows were spoilt.
func TestRebuildOfTheDocs(t *testing.T) {
	ctx := t.Context()
	s := start(ctx, t, newWorld(t, 41, warehouse.Raw), nil)
	now := genesis.AddDate(0, 0, 12)
	s.land(ctx, t, now)
	s.merge(ctx, t, now)
	if _, err := s.warehouse.DB.ExecContext(ctx, "UPDATE "+s.warehouse.Table("current_rows")+" SET kafka_offset = 99, is_deleted = NOT is_deleted"); err != nil {
		t.Fatal(err)
	}
	if len(s.compare(ctx, t, s.warehouse)) == 0 {
		t.Fatal("nothing is spoilt")
	}

	page, err := os.ReadFile("../../docs/bigquery.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "```sql\n")
	script, _, found := strings.Cut(script, "```")
	ts, err := scan(script)
	if err != nil || !found {
		t.Fatalf("no script on the page: %v", err)
	}
	conn, err := s.warehouse.DB.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := &run{conn: conn, turn: func() {}, variables: map[string]string{"@@now": stamp(now.Add(time.Hour))}}
	if err := r.block(ctx, ts); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.compare(ctx, t, s.warehouse) {
		t.Errorf("%s %d", f.what, f.n)
	}
}
