package remote

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

func statements(t *testing.T, format warehouse.Format) map[string]warehouse.Statement {
	t.Helper()
	list, err := warehouse.Render(warehouse.Spec{Project: "example-project", Dataset: "kafka", Topic: "orders", Format: format, RetentionDays: 7})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]warehouse.Statement{}
	for _, s := range list {
		out[s.Name] = s
	}
	return out
}

func declared(t *testing.T, s warehouse.Statement) *declaration {
	t.Helper()
	d, err := declare(s)
	if err != nil || d == nil {
		t.Fatalf("%s: %v, %v", s.Name, d, err)
	}
	return d
}

func TestEveryStatementIsUnderstood(t *testing.T) {
	for _, format := range []warehouse.Format{warehouse.Raw, warehouse.EnvelopeBytes, warehouse.EnvelopeJSON} {
		for name, s := range statements(t, format) {
			d, err := declare(s)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if makes := s.Object != warehouse.ObjectSchedule && s.Object != warehouse.ObjectAudit; makes != (d != nil) {
				t.Errorf("%s: makes %v", name, d)
				continue
			}
			if d == nil {
				continue
			}
			if d.project != "example-project" || d.dataset != "kafka" || !strings.HasPrefix(d.id, "orders_") {
				t.Errorf("%s: %s of %s", name, d, d.project)
			}
			kind := map[string]string{"table": kindTable, "view": kindView, "function": kindFunction, "procedure": kindProcedure}[name[strings.LastIndexByte(name, '_')+1:]]
			switch {
			case d.kind != kind:
				t.Errorf("%s: kind %q", name, d.kind)
			case kind == kindTable && len(d.columns) < 3, kind != kindTable && len(d.body) < 20, strings.HasSuffix(d.body, ";"):
				t.Errorf("%s: columns %v, body %q", name, d.columns, d.body)
			}
		}
	}
}

func TestDeclareTables(t *testing.T) {
	raw := declared(t, statements(t, warehouse.Raw)["raw_table"])
	want := &declaration{
		kind: kindTable, project: "example-project", dataset: "kafka", id: "orders_raw",
		columns: []field{
			{"subscription_name", "STRING", false},
			{"message_id", "STRING", false},
			{"publish_time", "TIMESTAMP", false},
			{"ordering_key", "STRING", false},
			{"data", "BYTES", false},
			{"attributes", "JSON", false},
		},
		partition: "publish_time", expiryDays: 30, requireFilter: true, cluster: []string{"publish_time"},
	}
	if !reflect.DeepEqual(raw, want) {
		t.Errorf("raw table: %+v", raw)
	}
	log := declared(t, statements(t, warehouse.EnvelopeJSON)["log_table"])
	if log.partition != "kafka_date" || log.expiryDays != 0 || !reflect.DeepEqual(log.cluster, []string{"kafka_offset", "kafka_partition"}) {
		t.Errorf("log table: %+v", log)
	}
	columns := map[string]field{}
	for _, c := range log.columns {
		columns[c.name] = c
	}
	for _, c := range []field{
		{"kafka_offset", "INT64", true},
		{"headers", "ARRAY<STRUCT<name STRING, name_base64 BYTES, value STRING, base64 BYTES>>", false},
		{"value", "JSON", false},
	} {
		if columns[c.name] != c {
			t.Errorf("column %+v, want %+v", columns[c.name], c)
		}
	}
}

func TestDeclareRefuses(t *testing.T) {
	for name, sql := range map[string]string{
		"schema":           "CREATE SCHEMA kafka;",
		"unknown clause":   "CREATE TABLE `p.d.t` (a INT64) DEFAULT COLLATE 'und:ci';",
		"bracket left out": "CREATE TABLE `p.d.t` (a INT64",
		"no days":          "CREATE TABLE `p.d.t` (a INT64) OPTIONS (partition_expiration_days = many);",
	} {
		if d, err := declare(warehouse.Statement{Name: name, SQL: sql}); err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestEssence(t *testing.T) {
	base := "SELECT a, 'x -- y' AS b FROM `p.d.t`"
	for name, sql := range map[string]string{
		"itself":           base,
		"white space":      "SELECT a,\n  'x -- y'  AS b\nFROM `p.d.t`\n",
		"semicolon":        base + ";\n",
		"line comment":     "SELECT a, -- why\n'x -- y' AS b FROM `p.d.t`",
		"block comment":    "SELECT a, /* 'why' */ 'x -- y' AS b FROM `p.d.t`",
		"begin and end":    "BEGIN\n" + base + ";\nEND",
		"begin, end and ;": "begin " + base + "; end;",
	} {
		if essence(sql) != essence(base) {
			t.Errorf("%s: %q", name, essence(sql))
		}
	}
	for name, sql := range map[string]string{
		"string":       "SELECT a, 'x --  y' AS b FROM `p.d.t`",
		"quote":        `SELECT a, "x -- y" AS b FROM ` + "`p.d.t`",
		"case of name": "SELECT A, 'x -- y' AS b FROM `p.d.t`",
		"more":         base + " WHERE TRUE",
	} {
		if essence(sql) == essence(base) {
			t.Errorf("%s is taken for the same", name)
		}
	}
}
