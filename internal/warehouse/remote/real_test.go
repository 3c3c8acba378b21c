//go:build integration && unix

package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/bqemulator"
	"github.com/mskbridge/mskbridge/internal/testbed/process"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// TestAgainstAServer shares one server, with the dataset kafka in it, which
// takes seconds to start.
func TestAgainstAServer(t *testing.T) {
	c := serve(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Client)
	}{
		{"queries", queries},
		{"problems", problems},
		{"rows of views", rowsOfViews},
		{"each statement is executed", eachStatementIsExecuted},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

func serve(t *testing.T) *Client {
	t.Helper()
	s, err := bqemulator.Start(t.Context())
	if _, ok := errors.AsType[*process.MissingError](err); ok && os.Getenv("MSKBRIDGE_REQUIRE_PARTS") != "1" {
		t.Skipf("SKIPPED, NOT PROVED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Log(30))
		}
		_ = s.Close()
	})
	c, err := Open(t.Context(), Options{Project: "example-project", Emulator: s.Address()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.bq.Dataset("kafka").Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// queries is about our use of Google's client: what goes in comes out.
func queries(t *testing.T, c *Client) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	extents := []warehouse.Extent{{Cluster: "msk", TopicID: "id", Partition: 1, From: 5, To: 7}, {Cluster: "msk", TopicID: "-", Partition: 0, From: 0, To: 10}}
	tests := []struct {
		name, sql string
		params    map[string]any
		want      []warehouse.Row
	}{
		{
			"scalars", "-- @nobody has this parameter\nSELECT @s AS s, @b AS b, @i AS i, @f AS f, @t AS t, @d AS d",
			map[string]any{"s": "it's", "b": true, "i": int64(7), "f": 1.5, "t": at, "d": warehouse.Date("2026-11-30")},
			[]warehouse.Row{{"s": "it's", "b": true, "i": int64(7), "f": 1.5, "t": at, "d": warehouse.Date("2026-11-30")}},
		},
		{
			"the empty string and the smallest numbers", "SELECT @s AS s, @b AS b, @i AS i",
			map[string]any{"s": "", "b": false, "i": int64(0)},
			[]warehouse.Row{{"s": "", "b": false, "i": int64(0)}},
		},
		{
			"structures", "SELECT CAST(NULL AS STRING) AS n, [1, 2] AS a, STRUCT(1 AS x, 'y' AS y) AS s, b'ab' AS b", nil,
			[]warehouse.Row{{"n": nil, "a": []any{int64(1), int64(2)}, "s": warehouse.Row{"x": int64(1), "y": "y"}, "b": []byte("ab")}},
		},
		{
			"extents", "SELECT e.kafka_topic_id AS id, e.to_offset - e.from_offset AS n FROM UNNEST(@expected) AS e ORDER BY 2",
			map[string]any{"expected": extents},
			[]warehouse.Row{{"id": "id", "n": int64(2)}, {"id": "-", "n": int64(10)}},
		},
		{"no extents", "SELECT COUNT(*) AS n FROM UNNEST(@expected) AS e", map[string]any{"expected": []warehouse.Extent{}}, []warehouse.Row{{"n": int64(0)}}},
		{"no rows", "SELECT 1 AS n FROM UNNEST([1]) AS e WHERE e > 1", nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := warehouse.Query{Name: test.name, SQL: test.sql, Params: test.params}
			if _, err := c.Estimate(t.Context(), q); err != nil {
				t.Error(err)
			}
			got, _, err := c.Query(t.Context(), q, 1<<30)
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("rows %v, error %v\nwant %v", got, err, test.want)
			}
		})
	}
}

func problems(t *testing.T, c *Client) {
	t.Helper()
	for _, test := range []struct {
		name, sql string
		kind      Kind
		want      string
	}{
		{"table", "SELECT * FROM `example-project.kafka.none_raw`", Missing, "table example-project.kafka.none_raw is missing: mskbridge sql --apply"},
		{"dataset", "SELECT * FROM `example-project.other.orders_raw`", Missing, "bq --location=LOCATION mk --dataset example-project:other"},
		{"syntax", "SELEC 1", Other, "Syntax error"},
	} {
		_, estimated := c.Estimate(t.Context(), warehouse.Query{Name: test.name, SQL: test.sql})
		_, _, ran := c.Query(t.Context(), warehouse.Query{Name: test.name, SQL: test.sql}, 0)
		for _, err := range []error{estimated, ran} {
			if err == nil || KindOf(err) != test.kind || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: kind %d: %v", test.name, KindOf(err), err)
			}
		}
	}
	if _, err := c.Dataset(t.Context(), "", "other"); KindOf(err) != Missing || !strings.Contains(err.Error(), "bq --location=LOCATION mk --dataset example-project:other") {
		t.Errorf("dataset: %v", err)
	}
	if _, err := c.Dataset(t.Context(), "example-project", "kafka"); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := c.Query(ended, warehouse.Query{Name: "late", SQL: "SELECT 1"}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// rowsOfViews writes what a subscription would, a copy, a stranger and a hole
// included, and reads it back through what is generated.
func rowsOfViews(t *testing.T, c *Client) {
	t.Helper()
	run := func(sql string, params map[string]any) []warehouse.Row {
		t.Helper()
		rows, _, err := c.Query(t.Context(), warehouse.Query{Name: "test", SQL: sql, Params: params}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	all := statements(t, warehouse.Raw)
	for _, name := range []string{"raw_table", "parsed_view", "records_view", "rejects_view", "dedup_view", "dedup_function"} {
		run(all[name].SQL, nil)
	}
	insert := func(message string, second int, attributes string) {
		t.Helper()
		run(fmt.Sprintf("INSERT INTO `example-project.kafka.orders_raw` (subscription_name, message_id, publish_time, data, attributes) VALUES ('s', '%s', TIMESTAMP '2026-11-30 00:00:%02d+00', b'v', JSON '%s')", message, second, attributes), nil)
	}
	record := func(offset int) string {
		return fmt.Sprintf(`{"idempotency_key":"v1/msk/orders/AAAAAAAAAAAAAAAAAAAAAA/0/3/%[1]d","kafka_topic":"orders","kafka_partition":"0","kafka_offset":"%[1]d","kafka_timestamp_ms":"1700000000000","kafka_key":"k"}`, offset)
	}
	insert("m1", 1, record(10))
	insert("m2", 2, record(11))
	insert("m3", 3, record(11)) // a copy by the publisher
	insert("m4", 4, record(14))
	insert("m5", 5, `{"who":"a stranger"}`)

	count := func(from string) int64 {
		t.Helper()
		n, _ := run("SELECT COUNT(*) AS n FROM "+from, nil)[0]["n"].(int64)
		return n
	}
	const since = " WHERE publish_time >= TIMESTAMP '2026-01-01 00:00:00+00'"
	for from, want := range map[string]int64{
		"`example-project.kafka.orders_records`" + since: 4,
		"`example-project.kafka.orders_rejects`" + since: 1,
		"`example-project.kafka.orders_dedup`":           3,
		"`example-project.kafka.orders_dedup_between`(TIMESTAMP '2026-11-30 00:00:02+00', TIMESTAMP '2026-11-30 00:00:09+00', 1)": 2,
	} {
		if got := count(from); got != want {
			t.Errorf("%s has %d rows, want %d", from, got, want)
		}
	}
	day := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	rows := run(all["audit_partitions"].SQL, map[string]any{
		"from_time": day, "to_time": day.Add(time.Hour),
		"expected": []warehouse.Extent{{Cluster: "msk", TopicID: "AAAAAAAAAAAAAAAAAAAAAA", Partition: 0, From: 9, To: 15}},
	})
	want := []any{warehouse.Row{"from_offset": int64(9), "to_offset": int64(10)}, warehouse.Row{"from_offset": int64(12), "to_offset": int64(14)}}
	if len(rows) != 1 || !reflect.DeepEqual(rows[0]["first_ranges"], want) || rows[0]["missing_offsets"] != int64(3) || rows[0]["duplicates_by_publisher"] != int64(1) {
		t.Errorf("audit: %v", rows)
	}
}
