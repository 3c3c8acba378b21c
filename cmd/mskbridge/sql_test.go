package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

func runSQL(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(append([]string{"sql"}, args...), &out, &errs)
	return out.String(), errs.String(), code
}

func TestSQLNeedsNoBrokers(t *testing.T) {
	t.Setenv("BRIDGE_TOPICS", "orders,inventory.changes")
	t.Setenv("BRIDGE_PROJECT", "example-project")
	out, errs, code := runSQL(t, "--object", "schedule")
	if code != fault.CodeOK || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"CALL `example-project.kafka.orders_merge`(NULL);", "CALL `example-project.kafka.inventory__changes_merge`(NULL);"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
}

func TestSQLWithoutProject(t *testing.T) {
	t.Setenv("BRIDGE_TOPICS", "orders")
	out, errs, code := runSQL(t, "--object", "schedule", "--dataset", "events")
	if code != fault.CodeOK || !strings.Contains(out, "CALL `events.orders_merge`(NULL);") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
}

func TestSQLWritesFiles(t *testing.T) {
	t.Setenv("BRIDGE_TOPICS", "orders,inventory.changes")
	folder := t.TempDir()
	out, errs, code := runSQL(t, "--route", "inventory.changes", "--dataset", "other-project.events", "--out", folder)
	if code != fault.CodeOK || out != "" {
		t.Fatalf("exit %d: %s%s", code, errs, out)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := warehouse.Render(warehouse.Spec{Dataset: "events", Topic: "t", Format: warehouse.Raw, RetentionDays: 7})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(all) || !slices.IsSorted(files) || filepath.Base(files[0]) != "01_raw_table.sql" {
		t.Errorf("files %v", files)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(body), "`other-project.events.inventory__changes_") {
			t.Errorf("%s: %v\n%s", file, err, body)
		}
	}
}

func TestSQLUsage(t *testing.T) {
	t.Setenv("BRIDGE_TOPICS", "orders,payments")
	t.Setenv("BRIDGE_PROJECT", "example-project")
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown route", []string{"--route", "order"}, `no route has the topic "order"; there are orders, payments`},
		{"unknown object", []string{"--object", "raw,tables"}, `"tables" is not an object: raw, views, log, current, merge, schedule, audit`},
		{"dataset that is none", []string{"--dataset", "a-b"}, `"a-b" is not a dataset`},
		{"retention that Pub/Sub has not", []string{"--retention-days", "40"}, "1 to 31 days"},
		{"argument", []string{"orders"}, "--help"},
		{"both", []string{"--check", "--apply"}, "two things"},
		{"dry run of nothing", []string{"--dry-run"}, "come with --apply"},
		{"nothing that stays", []string{"--apply", "--object", "schedule,audit"}, "they are run, not created"},
		{"place of jobs that do not run", []string{"--check", "--location", "EU"}, "--location comes with --apply"},
		{"files of a comparison", []string{"--check", "--out", "x"}, "only printed"},
		{"JSON of an application", []string{"--apply", "--output", "json"}, "comes with --check"},
		{"output that is none", []string{"--check", "--output", "yaml"}, "table or json"},
		{"no dead letters", []string{"--apply", "--route", "orders"}, "route orders has no dead_letter"},
	}
	for _, test := range tests {
		out, errs, code := runSQL(t, test.args...)
		if code != fault.CodeUsage || !strings.Contains(errs, test.want) || out != "" {
			t.Errorf("%s: exit %d, %q, want %q", test.name, code, errs, test.want)
		}
	}
}

func TestSQLTakesARouteOnce(t *testing.T) {
	t.Setenv("BRIDGE_TOPICS", "orders,payments")
	out, _, code := runSQL(t, "--object", "schedule", "--route", "payments", "--route", "payments,orders")
	if code != fault.CodeOK || strings.Count(out, "payments_merge`") != 1 || strings.Count(out, "orders_merge`") != 1 {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// TestSQLDataset says who decides where the tables are.
func TestSQLDataset(t *testing.T) {
	t.Setenv("BRIDGE_TOPICS", "orders=projects/example-project/topics/orders")
	tests := []struct {
		name, variable, project string
		args                    []string
		want                    string
	}{
		{"nobody", "", "", nil, "`kafka.orders_merge`"},
		{"the variable", "events", "", nil, "`events.orders_merge`"},
		{"the variable with a project", "other-project.events", "example-project", nil, "`other-project.events.orders_merge`"},
		{"the flag", "events", "example-project", []string{"--dataset", "flagged"}, "`example-project.flagged.orders_merge`"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("BRIDGE_DATASET", test.variable)
			t.Setenv("BRIDGE_PROJECT", test.project)
			out, errs, code := runSQL(t, append([]string{"--object", "schedule"}, test.args...)...)
			if code != fault.CodeOK || !strings.Contains(out, test.want) {
				t.Errorf("exit %d, %s, want %s in:\n%s", code, errs, test.want, out)
			}
		})
	}
}

func TestSQLCompareNeedsAProject(t *testing.T) {
	t.Setenv("BRIDGE_TOPICS", "orders=projects/example-project/topics/orders")
	t.Setenv("BIGQUERY_EMULATOR_HOST", "127.0.0.1:1")
	for _, variable := range []string{"BRIDGE_PROJECT", "GOOGLE_CLOUD_PROJECT"} {
		t.Setenv(variable, "")
	}
	if _, errs, code := runSQL(t, "--check"); code != fault.CodeUsage || !strings.Contains(errs, "no project is known for BigQuery") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
