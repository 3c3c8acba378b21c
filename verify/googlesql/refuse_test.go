package googlesql

import (
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// TestMistakesAreRefused plants mistakes in the generated text. Each must be
// found, by the analyzer or by a rule, or the proof is worth nothing.
func TestMistakesAreRefused(t *testing.T) {
	tests := []struct {
		name, statement, old, planted string
		rule                          bool // found by a rule, not by the analyzer
	}{
		{"unknown column in a view", "parsed_view", "publish_time,", "published_time,", false},
		{"unknown function", "parsed_view", "SPLIT(", "SPLITT(", false},
		{"comparison of JSON", "latest_view", "WHERE l.kafka_key IS NOT NULL", "WHERE l.attributes = l.attributes", false},
		{"window function in WHERE", "dedup_view", "QUALIFY ROW_NUMBER()", "AND ROW_NUMBER()", false},
		{"type of a set variable", "merge_procedure", "SET is_sweep = TIMESTAMP_DIFF(now_ts, swept_ts, MINUTE) >= 1440", "SET is_sweep = TIMESTAMP_DIFF(now_ts, swept_ts, MINUTE)", false},
		{"type of one of several", "merge_procedure", "COUNT(*), MIN(publish_time)", "MIN(publish_time), COUNT(*)", false},
		{"unknown variable", "merge_procedure", "INTERVAL 60 MINUTE", "INTERVAL lookback MINUTE", false},
		{"unknown column in the body", "merge_procedure", "updated_at = now_ts", "changed_at = now_ts", false},
		{"type of an inserted column", "merge_procedure", "s.is_tombstone, now_ts);", "now_ts, now_ts);", false},
		{"variable of another type", "merge_procedure", "DECLARE is_sweep BOOL", "DECLARE is_sweep STRING", false},
		{"clause order of MERGE", "merge_procedure", "WHEN MATCHED THEN\n        DELETE", "WHEN MATCHED DELETE", false},
		{"call with another type", "schedule_call", "(NULL)", "('yesterday')", false},
		{"unknown parameter", "audit_unmerged", "BETWEEN @from_date", "BETWEEN @first_date", false},
		{"field that a parameter has not", "audit_partitions", "e.from_offset, e.to_offset\n", "e.from_offset, e.next_offset\n", false},

		{"cluster by BYTES", "log_table", "CLUSTER BY kafka_offset, kafka_partition", "CLUSTER BY kafka_offset, kafka_key", true},
		{"five cluster columns", "log_table", "CLUSTER BY kafka_offset, kafka_partition", "CLUSTER BY kafka_offset, kafka_partition, kafka_topic, kafka_cluster, kafka_date", true},
		{"partition by an integer", "log_table", "PARTITION BY kafka_date", "PARTITION BY kafka_offset", true},
		{"partition by a timestamp", "raw_table", "PARTITION BY DATE(publish_time)", "PARTITION BY publish_time", true},
		{"unknown option", "raw_table", "partition_expiration_days = 30", "partition_expiry_days = 30", true},
		{"option of another type", "raw_table", "require_partition_filter = TRUE", "require_partition_filter = 'yes'", true},
		{"label in upper case", "raw_table", "('kafka_topic', 'orders')", "('kafka_topic', 'Orders')", true},
		{"log without a partition filter", "merge_procedure", "WHERE (kafka_date BETWEEN seen_date_min AND seen_date_max OR kafka_date = DATE '1970-01-01')\n      AND", "WHERE", true},
		{"raw without a partition filter", "merge_procedure", "WHERE publish_time >= window_start AND publish_time < now_ts", "WHERE kafka_offset > 0", true},
		{"target without a partition filter", "merge_procedure", "ON (t.kafka_date BETWEEN new_date_min AND new_date_max OR t.kafka_date = DATE '1970-01-01')\n        AND", "ON", true},
		{"DDL in the transaction", "merge_procedure", "BEGIN TRANSACTION;", "BEGIN TRANSACTION;\n    CREATE OR REPLACE TEMP TABLE again AS SELECT 1 AS one;", true},
		{"subquery in MERGE", "merge_procedure", "WHEN MATCHED THEN\n        DELETE", "WHEN MATCHED AND EXISTS (SELECT 1 FROM fresh AS f WHERE f.kafka_offset = t.kafka_offset) THEN\n        DELETE", true},
		{"source of MERGE with copies", "merge_procedure", "QUALIFY ROW_NUMBER() OVER (PARTITION BY r.idempotency_key ORDER BY r.publish_time, r.message_id) = 1\n", "\n", true},
		{"late DECLARE", "merge_procedure", "  SET is_sweep =", "  DECLARE late INT64;\n  SET is_sweep =", true},
		{"dotted JSON path", "parsed_view", "'$.kafka_topic'", "'$.kafka.topic'", true},
		{"QUALIFY alone", "current_view", "WHERE c.kafka_key IS NOT NULL\n", "", true},
		{"dash in a name", "schedule_call", "orders_merge", "orders-merge", true},
	}
	spec := warehouse.Spec{Project: "example-project", Dataset: "kafka", Topic: "orders", Format: warehouse.Raw, RetentionDays: 7}
	statements, err := warehouse.Render(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChecker(t)
			for _, s := range statements {
				text := s.SQL
				if s.Name == test.statement {
					if text = strings.Replace(text, test.old, test.planted, 1); text == s.SQL {
						t.Fatalf("%s has no %q any more", s.Name, test.old)
					}
				}
				err, broken := c.Check(strings.TrimSuffix(text, ";\n")), Rules(text)
				if s.Name != test.statement {
					if err != nil || broken != nil {
						t.Fatalf("%s: %v %v", s.Name, err, broken)
					}
					continue
				}
				if test.rule && broken == nil || !test.rule && err == nil {
					t.Errorf("not refused: %v %v", err, broken)
				}
				return
			}
		})
	}
}
