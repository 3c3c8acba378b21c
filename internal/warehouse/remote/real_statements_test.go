//go:build integration && unix

package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// proof says who executes a statement. GoogleSQL analyses each of them
// (verify/googlesql), and DuckDB executes them (verify/duckdb); both modules go
// through all that Render returns and fail for one that they leave out.
type proof struct {
	duckdb  bool
	refused string // what the server says instead of running it; "" where it runs
}

// proofs lists every statement by hand, so that a new one needs a line.
func proofs() map[string]proof {
	const (
		ran = "" // by the server as well
		// The server ends a procedure at the END of a CASE, and runs the rest of
		// the text on the spot.
		endOfCase = `Referenced column "window_start" was not found`
		// The part that is left of the procedure sets two variables at once.
		setOfStruct = "SET (targets) column count 2 != row columns 1"
	)
	return map[string]proof{
		"raw_table":          {true, ran},
		"parsed_view":        {true, ran},
		"records_view":       {true, ran},
		"rejects_view":       {true, ran},
		"dedup_view":         {true, ran},
		"dedup_function":     {true, ran},
		"log_table":          {true, ran},
		"incarnations_table": {true, ran},
		"state_table":        {true, ran},
		"current_table":      {true, ran},
		"current_view":       {true, ran},
		"latest_view":        {true, ran},
		"merge_procedure":    {true, endOfCase},
		"schedule_call":      {true, setOfStruct},
		"audit_partitions":   {true, ran},
		"audit_found":        {true, ran},
		"audit_landed":       {true, ran},
		"audit_unmerged":     {true, ran},
		"audit_repeated":     {true, ran},
		"audit_keys":         {true, ran},
		"audit_freshness":    {true, ran},
	}
}

// arguments are values for all parameters that statements have.
func arguments(sql string) map[string]any {
	now := time.Now()
	extents := []warehouse.Extent{{Cluster: "msk", TopicID: "-", Partition: 0, From: 0, To: 10}}
	out := map[string]any{}
	for name, value := range map[string]any{
		"from_time": now.Add(-time.Hour), "to_time": now, "expected": extents, "ranges": extents,
		"from_date": warehouse.Date("2026-01-01"), "to_date": warehouse.Date("2026-12-31"),
		"from_offset": int64(0), "to_offset": int64(10),
	} {
		for _, t := range scan(sql) {
			if t.text == "@"+name {
				out[name] = value
			}
		}
	}
	return out
}

// eachStatementIsExecuted runs all statements of all formats, in order, on
// the server. One that it refuses must be refused for the reason that is listed:
// a newer version that takes it says so here.
func eachStatementIsExecuted(t *testing.T, c *Client) {
	t.Helper()
	known := proofs()
	for format, topic := range map[warehouse.Format]string{warehouse.Raw: "refunds", warehouse.EnvelopeBytes: "payments", warehouse.EnvelopeJSON: "clicks"} {
		list, err := warehouse.Render(warehouse.Spec{Project: "example-project", Dataset: "kafka", Topic: topic, Format: format, RetentionDays: 7})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != len(known) {
			t.Errorf("%s: %d statements are generated, %d are listed", format, len(list), len(known))
		}
		for _, s := range list {
			p, ok := known[s.Name]
			if !ok || !p.duckdb && p.refused != "" {
				t.Errorf("%s: nothing executes %s: list it here, and say what does", format, s.Name)
				continue
			}
			_, _, err := c.Query(t.Context(), warehouse.Query{Name: s.Name, SQL: s.SQL, Params: arguments(s.SQL)}, 0)
			switch {
			case p.refused == "" && err != nil:
				t.Errorf("%s: %s: %v", format, s.Name, err)
			case p.refused != "" && err == nil:
				t.Errorf("%s: the server takes %s now: list it as executed", format, s.Name)
			case p.refused != "" && !strings.Contains(err.Error(), p.refused):
				t.Errorf("%s: %s is refused for another reason: %v", format, s.Name, err)
			}
		}
	}
}
