package googlesql

import (
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// parameters are those of the audits.
var parameters = map[string]string{
	"from_time": "TIMESTAMP", "to_time": "TIMESTAMP", "from_date": "DATE", "to_date": "DATE",
	"from_offset": "INT64", "to_offset": "INT64", "expected": extents, "ranges": extents,
}

// extents is what BigQuery's client makes of []warehouse.Extent.
const extents = "ARRAY<STRUCT<kafka_cluster STRING, kafka_topic_id STRING, kafka_partition INT64, from_offset INT64, to_offset INT64>>"

func newChecker(t *testing.T) *Checker {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range parameters {
		if err := c.Parameter(name, kind); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestEachStatementIsAnalysed is the proof for BigQuery's words and types.
func TestEachStatementIsAnalysed(t *testing.T) {
	topics := []string{"orders", "inventory.changes", "pay-events_v2", strings.Repeat("a.", 120) + "b"}
	for _, format := range []warehouse.Format{warehouse.Raw, warehouse.EnvelopeBytes, warehouse.EnvelopeJSON} {
		for i, topic := range topics {
			spec := warehouse.Spec{Project: "example-project", Dataset: "kafka", Topic: topic, Format: format, RetentionDays: 7, NoCurrent: i == 1}
			statements, err := warehouse.Render(spec)
			if err != nil {
				t.Fatal(err)
			}
			c := newChecker(t)
			for _, s := range statements {
				if err := c.Check(strings.TrimSuffix(s.SQL, ";\n")); err != nil {
					t.Errorf("%s, %s: %v", format, s.Name, err)
				}
				for _, broken := range Rules(s.SQL) {
					t.Errorf("%s, %s: %s", format, s.Name, broken)
				}
			}
			t.Logf("%s, %.20s: %d statements, %d with those in procedures", format, topic, len(statements), c.Analysed)
		}
	}
}
