package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/fakebigquery"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// storedRaw and storedState are what BigQuery keeps of two tables, in its words.
const (
	storedRaw = `{
  "tableReference": {"projectId": "example-project", "datasetId": "kafka", "tableId": "orders_raw"}, "type": "TABLE",
  "schema": {"fields": [
    {"name": "subscription_name", "type": "STRING", "description": "Subscription that wrote the row"},
    {"name": "message_id", "type": "STRING"}, {"name": "publish_time", "type": "TIMESTAMP"},
    {"name": "ordering_key", "type": "STRING"}, {"name": "data", "type": "BYTES", "mode": "NULLABLE"}, {"name": "attributes", "type": "JSON"}]},
  "timePartitioning": {"type": "DAY", "field": "publish_time", "expirationMs": "2592000000", "requirePartitionFilter": true},
  "requirePartitionFilter": true, "clustering": {"fields": ["publish_time"]}}`
	storedRejects = `{
  "tableReference": {"projectId": "example-project", "datasetId": "kafka", "tableId": "orders_rejects"}, "type": "VIEW",
  "view": {"useLegacySql": false, "query": "SELECT * EXCEPT (is_record)\nFROM ` + "`example-project.kafka.orders_parsed`" + `\nWHERE NOT is_record"}}`
)

// cloud is both services without anything in them but topics.
type cloud struct {
	bq     *fakebigquery.Server
	pubsub *fakepubsub.Server
}

func newCloud(t *testing.T, objects ...fakebigquery.Object) *cloud {
	t.Helper()
	c := &cloud{fakebigquery.Start("example-project", "kafka", objects...), fakepubsub.New(fakepubsub.Options{})}
	address, err := c.pubsub.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pubsub.Close)
	t.Cleanup(c.bq.Close)
	if err := c.pubsub.CreateTopics("projects/example-project/topics/orders", "projects/example-project/topics/dead"); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"BRIDGE_TOPICS": "orders", "BRIDGE_PROJECT": "example-project", "BRIDGE_DATASET": "kafka", "BRIDGE_DEAD_LETTER_TOPIC": "dead",
		"BIGQUERY_EMULATOR_HOST": c.bq.Address(), "PUBSUB_EMULATOR_HOST": address,
	} {
		t.Setenv(name, value)
	}
	return c
}

var rawObject = fakebigquery.Object{Path: "tables/orders_raw", Resource: storedRaw}

func expectSQL(t *testing.T, want int, texts []string, args ...string) {
	t.Helper()
	out, errs, code := runSQL(t, args...)
	if code != want {
		t.Errorf("%v: exit %d, want %d: %s", args, code, want, errs)
	}
	for _, text := range texts {
		if !strings.Contains(out+errs, text) {
			t.Errorf("%v: no %q in\n%s%s", args, text, out, errs)
		}
	}
}

func TestApplyTwice(t *testing.T) {
	c := newCloud(t, rawObject)
	expectSQL(t, fault.CodeFailed, []string{"missing    kafka.orders_raw (table)", "1 missing"}, "--check", "--object", "raw")
	expectSQL(t, fault.CodeOK, []string{
		"[1/2] kafka.orders_raw (table): would create", "[2/2] orders-bigquery (subscription): would create", "nothing was changed; 2 of 2",
	}, "--apply", "--dry-run", "--object", "raw")
	if len(c.bq.Jobs()) != 0 || len(c.pubsub.Subscriptions()) != 0 {
		t.Fatalf("a dry run made %v and %v", c.bq.Jobs(), c.pubsub.Subscriptions())
	}
	expectSQL(t, fault.CodeOK, []string{"kafka.orders_raw (table): created", "orders-bigquery (subscription): created", "2 of 2 objects changed"}, "--apply", "--object", "raw")
	expectSQL(t, fault.CodeOK, []string{"kafka.orders_raw (table): exists, same", "orders-bigquery (subscription): exists, same", "nothing to do"}, "--apply", "--object", "raw")
	expectSQL(t, fault.CodeOK, []string{"same       kafka.orders_raw (table)", "1 objects: 1 same"}, "--check", "--object", "raw")
	if n := len(c.bq.Jobs()); n != 1 {
		t.Errorf("%d statements ran, want 1", n)
	}
	made := c.pubsub.Subscriptions()["projects/example-project/subscriptions/orders-bigquery"]
	if made.GetBigqueryConfig().GetTable() != "example-project.kafka.orders_raw" || made.GetFilter() != "" {
		t.Errorf("subscription %v", made)
	}
	// Another route joins the topic: the filter cannot be added any more, and the rest stays.
	t.Setenv("BRIDGE_TOPICS", "orders,refunds=orders")
	expectSQL(t, fault.CodeOK, []string{"exists, same", "note: it has no filter"}, "--apply", "--object", "raw", "--route", "orders")
	// A longer retention means a raw table that lives longer: not for us to alter.
	expectSQL(t, fault.CodeFailed, []string{"expiration of partitions is 30 days, generated 37 days: ALTER TABLE `example-project.kafka.orders_raw` SET OPTIONS", "nothing was changed"},
		"--apply", "--object", "raw", "--route", "orders", "--retention-days", "14")
}

func TestApplyReplacesWhatIsText(t *testing.T) {
	rejects := fakebigquery.Object{Path: "tables/orders_rejects", Resource: storedRejects}
	var views []fakebigquery.Object
	for _, name := range []string{"parsed", "records", "dedup"} {
		views = append(views, fakebigquery.Object{Path: "tables/orders_" + name, Resource: strings.ReplaceAll(storedRejects, "orders_rejects", "orders_"+name)})
	}
	c := newCloud(t, rejects)
	old := rejects
	old.Resource = strings.Replace(old.Resource, "NOT is_record", "FALSE", 1)
	c.bq.Put(old)
	for _, v := range views {
		c.bq.Put(v)
	}
	expectSQL(t, fault.CodeFailed, []string{"different  kafka.orders_rejects (view)", "- WHERE FALSE\n", "+ WHERE NOT is_record\n"}, "--check", "--object", "views")
	t.Setenv("PUBSUB_EMULATOR_HOST", "") // views have no subscription: Pub/Sub is not asked
	expectSQL(t, fault.CodeOK, []string{"kafka.orders_rejects (view): replaced"}, "--apply", "--object", "views")
	expectSQL(t, fault.CodeFailed, []string{"same       kafka.orders_rejects (view)"}, "--check", "--object", "views")
}

func TestApplyStopsAndGoesOn(t *testing.T) {
	c := newCloud(t, rawObject)
	c.bq.Refuse(func(_, path string) (int, string, string) {
		if strings.HasPrefix(path, "CREATE TABLE") {
			return http.StatusForbidden, "accessDenied", "Access Denied: Dataset example-project:kafka: Permission bigquery.tables.create denied on dataset example-project:kafka (or it may not exist)."
		}
		return 0, "", ""
	})
	expectSQL(t, fault.CodeFailed, []string{"[1/2] kafka.orders_raw (table): failed", "0 of 2 steps are done; run the same command again to go on", "grant bigquery.tables.create on dataset example-project.kafka (roles/bigquery.dataEditor"}, "--apply", "--object", "raw")
	if len(c.pubsub.Subscriptions()) != 0 {
		t.Error("a subscription was made to a table that is not there")
	}
	c.bq.Refuse(nil)
	c.pubsub.RemoveTopic("projects/example-project/topics/dead")
	expectSQL(t, fault.CodeFailed, []string{"kafka.orders_raw (table): created", "orders-bigquery (subscription): failed", "1 of 2 steps are done", "gcloud pubsub topics create"}, "--apply", "--object", "raw")
	if err := c.pubsub.CreateTopics("projects/example-project/topics/dead"); err != nil {
		t.Fatal(err)
	}
	expectSQL(t, fault.CodeOK, []string{"kafka.orders_raw (table): exists, same", "orders-bigquery (subscription): created"}, "--apply", "--object", "raw")
}

func TestCheckThatCannotLook(t *testing.T) {
	c := newCloud(t, rawObject)
	denied := func(_, path string) (int, string, string) {
		if strings.Contains(path, "tables/") {
			return http.StatusForbidden, "accessDenied", "Access Denied: Table example-project:kafka.orders_raw: Permission bigquery.tables.get denied on table example-project:kafka.orders_raw (or it may not exist)."
		}
		return 0, "", ""
	}
	c.bq.Refuse(denied)
	expectSQL(t, fault.CodeUnknown, []string{"unclear    kafka.orders_raw (table)", "grant bigquery.tables.get on table example-project.kafka.orders_raw"}, "--check", "--object", "raw")
	expectSQL(t, fault.CodeUnknown, []string{"nothing was changed"}, "--apply", "--object", "raw")
	out, _, code := runSQL(t, "--check", "--object", "raw", "--output", "json")
	var report struct {
		Result  string
		Objects []struct{ Object, Kind, Status, Problem string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != fault.CodeUnknown || report.Result != "unclear" || len(report.Objects) != 1 || report.Objects[0].Status != "unclear" {
		t.Errorf("exit %d, error %v: %s", code, err, out)
	}
	c.bq.Refuse(func(_, path string) (int, string, string) {
		return http.StatusNotFound, "notFound", "Not found: Dataset example-project:kafka"
	})
	expectSQL(t, fault.CodeUsage, []string{"1 to 31 days"}, "--check", "--retention-days", "40") // asks nobody
	for _, args := range [][]string{{"--check"}, {"--apply"}, {"--apply", "--dry-run"}} {
		expectSQL(t, fault.CodeFailed, []string{"dataset example-project.kafka is missing: bq --location=LOCATION mk --dataset example-project:kafka"}, args...)
	}
}

func TestPlainIsBounded(t *testing.T) {
	if got := plain(strings.Repeat("é", 20<<10) + "\x1b"); len(got) > mostPlain+3 || !strings.HasSuffix(got, "é...") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestCheckEndsWhereNobodyAnswers(t *testing.T) {
	newCloud(t, rawObject)
	cfg, err := routesConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := openWarehouse(t.Context(), cfg, "example-project", "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, _, err = look(late, client, warehouse.Statement{SQL: "CREATE TABLE `kafka.orders_raw` (x INT64);"})
	if fault.Code(err) != fault.CodeUnknown {
		t.Errorf("error %v", err)
	}
}

func TestCheckOfNothingIsAList(t *testing.T) {
	newCloud(t)
	expectSQL(t, fault.CodeOK, []string{`"objects": []`}, "--check", "--object", "schedule", "--output", "json")
}

// The views of a dataset are written by whoever may, and read on a terminal.
func TestTextOfServersSteersNoTerminal(t *testing.T) {
	evil := strings.Replace(storedRejects, "NOT is_record", `'\u001b[2J\u009b2J\u202e'`, 1)
	c := newCloud(t)
	c.bq.Put(fakebigquery.Object{Path: "tables/orders_rejects", Resource: evil})
	out, _, _ := runSQL(t, "--check", "--object", "views")
	if strings.ContainsAny(out, "\x1b\u009b\u202e") || !strings.Contains(out, "- WHERE '\uFFFD[2J\uFFFD2J\uFFFD'") {
		t.Errorf("%q", out)
	}
}

func TestApplyNeedsBothEmulators(t *testing.T) {
	newCloud(t)
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	expectSQL(t, fault.CodeUsage, []string{"would join an emulator with the real service"}, "--apply")
}

func TestNoDeadLetter(t *testing.T) {
	c := newCloud(t, rawObject)
	t.Setenv("BRIDGE_DEAD_LETTER_TOPIC", "")
	expectSQL(t, fault.CodeUsage, []string{"route orders has no dead_letter", "--no-dead-letter"}, "--apply", "--object", "raw")
	expectSQL(t, fault.CodeOK, nil, "--apply", "--object", "raw", "--no-dead-letter")
	if s := c.pubsub.Subscriptions()["projects/example-project/subscriptions/orders-bigquery"]; s == nil || s.GetDeadLetterPolicy() != nil {
		t.Errorf("subscription %v", s)
	}
}
