//go:build integration && unix

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"cloud.google.com/go/bigquery"
	"google.golang.org/api/option"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/bqemulator"
	"github.com/mskbridge/mskbridge/internal/testbed/emulator"
	"github.com/mskbridge/mskbridge/internal/testbed/process"
	"github.com/mskbridge/mskbridge/internal/warehouse/remote"
)

// need ends the test for want of a part: as failed where parts are required,
// else as skipped.
func need(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*process.MissingError](err); ok && os.Getenv("MSKBRIDGE_REQUIRE_PARTS") != "1" {
		t.Skipf("SKIPPED, NOT PROVED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestApplyToServersOfOthers runs the whole command against a server of
// BigQuery's API that nobody here wrote, and Google's emulator of Pub/Sub.
func TestApplyToServersOfOthers(t *testing.T) {
	bq, err := bqemulator.Start(t.Context())
	need(t, err)
	t.Cleanup(func() { _ = bq.Close() })
	ps, err := emulator.Start(t.Context())
	need(t, err)
	t.Cleanup(func() { _ = ps.Close() })
	for name, value := range map[string]string{
		"BRIDGE_TOPICS": "orders,refunds=orders", "BRIDGE_PROJECT": "example-project", "BRIDGE_DATASET": "kafka", "BRIDGE_DEAD_LETTER_TOPIC": "dead",
		"BIGQUERY_EMULATOR_HOST": bq.Address(), "PUBSUB_EMULATOR_HOST": ps.Address(),
	} {
		t.Setenv(name, value)
	}
	if err := ps.CreateTopics(t.Context(), "projects/example-project/topics/orders", "projects/example-project/topics/dead"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--check"}, {"--apply", "--dry-run"}, {"--apply"}} {
		expectSQL(t, fault.CodeFailed, []string{"bq --location=LOCATION mk --dataset example-project:kafka"}, args...)
	}
	client, err := bigquery.NewClient(t.Context(), "example-project", option.WithEndpoint("http://"+bq.Address()+"/bigquery/v2/"), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Dataset("kafka").Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	expectSQL(t, fault.CodeFailed, []string{"26 objects: 0 same, 0 different, 26 missing, 0 not verifiable"}, "--check")
	expectSQL(t, fault.CodeOK, []string{"[28/28] refunds-bigquery (subscription): would create", "nothing was changed; 28 of 28"}, "--apply", "--dry-run")
	expectSQL(t, fault.CodeFailed, []string{"26 missing"}, "--check") // it was dry indeed

	// Everything but the procedure, which this server does not take.
	whole := []string{"--object", "raw,views,log,current"}
	expectSQL(t, fault.CodeOK, []string{
		"[1/26] kafka.orders_raw (table): created", "kafka.orders_dedup_between (table function): created", "[12/26] kafka.orders_latest (view): created",
		"[13/26] orders-bigquery (subscription): created", "[26/26] refunds-bigquery (subscription): created", "26 of 26 objects changed",
	}, append(whole, "--apply")...)
	expectSQL(t, fault.CodeFailed, []string{"[1/1] kafka.orders_merge (procedure): failed", "window_start", "run the same command again"}, "--apply", "--object", "merge", "--route", "orders")
	t.Run("again", func(t *testing.T) { again(t, client) })
}

// again looks at what this server gives back of what it was told. It stores no
// clusters, no partition by a part of a column, JSON as text, and views without
// theirs: what it stores whole must be the same, the rest must differ in this
// alone.
func again(t *testing.T, client *bigquery.Client) {
	t.Helper()
	out, _, code := runSQL(t, "--check", "--route", "orders", "--object", "raw,views,log,current", "--output", "json")
	var report struct {
		Objects []remote.Finding
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != fault.CodeFailed {
		t.Fatalf("exit %d, error %v: %s", code, err, out)
	}
	got := map[string][]string{}
	for _, f := range report.Objects {
		list := []string{}
		for _, d := range f.Differences {
			list = append(list, fmt.Sprintf("%s is %s", d.What, cmp.Or(d.Have, "none")))
		}
		got[f.Object] = list
	}
	const asText, noText = "column attributes is STRING", "text is none"
	want := map[string][]string{
		"kafka.orders_raw":           {asText, "partitioning is ingestion time by day", "clustering is none"},
		"kafka.orders_log":           {asText, "clustering is none"},
		"kafka.orders_current_rows":  {asText},
		"kafka.orders_incarnations":  {},
		"kafka.orders_merge_state":   {},
		"kafka.orders_dedup_between": {},
	}
	for _, view := range []string{"parsed", "records", "rejects", "dedup", "current", "latest"} {
		want["kafka.orders_"+view] = []string{noText}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("differences %v\nwant %v", got, want)
	}
	// What is whole is left alone, and so are the subscriptions.
	expectSQL(t, fault.CodeFailed, []string{"kafka.orders_raw: column attributes is STRING", "nothing was changed"}, "--apply", "--object", "raw", "--route", "orders")
	expectSQL(t, fault.CodeOK, []string{"kafka.orders_dedup_between (table function): exists, same", "kafka.orders_dedup (view): replaced"}, "--apply", "--object", "views", "--route", "orders")

	// Made through the API, the same table is stored whole.
	raw := client.Dataset("kafka").Table("orders_raw")
	if err := raw.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	schema := bigquery.Schema{
		{Name: "subscription_name", Type: bigquery.StringFieldType},
		{Name: "message_id", Type: bigquery.StringFieldType},
		{Name: "publish_time", Type: bigquery.TimestampFieldType},
		{Name: "ordering_key", Type: bigquery.StringFieldType},
		{Name: "data", Type: bigquery.BytesFieldType},
		{Name: "attributes", Type: bigquery.JSONFieldType},
		{Name: "mine", Type: bigquery.StringFieldType},
	}
	if err := raw.Create(t.Context(), &bigquery.TableMetadata{
		Schema: schema, Clustering: &bigquery.Clustering{Fields: []string{"publish_time"}},
		TimePartitioning: &bigquery.TimePartitioning{Type: bigquery.DayPartitioningType, Field: "publish_time", Expiration: 30 * 24 * time.Hour, RequirePartitionFilter: true},
	}); err != nil {
		t.Fatal(err)
	}
	expectSQL(t, fault.CodeOK, []string{"same       kafka.orders_raw (table)", "note: column mine STRING is more than generated"}, "--check", "--object", "raw", "--route", "orders")
	expectSQL(t, fault.CodeOK, []string{"kafka.orders_raw (table): exists, same", "orders-bigquery (subscription): exists, same", "nothing to do: all 2 objects"}, "--apply", "--object", "raw", "--route", "orders")
}
