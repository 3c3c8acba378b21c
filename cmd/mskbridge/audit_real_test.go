//go:build integration && unix

package main

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigquery"
	"google.golang.org/api/option"

	"github.com/mskbridge/mskbridge/internal/testbed/bqemulator"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/warehouse"
	"github.com/mskbridge/mskbridge/internal/warehouse/remote"
)

// TestAuditOnAServerOfOthers runs the command through Google's client against a
// server of BigQuery's API that nobody here wrote.
func TestAuditOnAServerOfOthers(t *testing.T) {
	bq, err := bqemulator.Start(t.Context())
	need(t, err)
	t.Cleanup(func() { _ = bq.Close() })
	s := newScene(t, fakekafka.Options{})
	t.Setenv("BIGQUERY_EMULATOR_HOST", bq.Address())
	s.produce(20, 0)
	s.commit(20)
	code, r, _ := s.audit()
	if code != 3 || !strings.Contains(strings.Join(r.Routes[0].Problems, "\n"), "dataset") {
		t.Errorf("without a dataset: exit code %d, %v", code, r.Routes[0].Problems)
	}

	admin, err := bigquery.NewClient(t.Context(), "shop-prod", option.WithEndpoint("http://"+bq.Address()+"/bigquery/v2/"), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Dataset("kafka").Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	client, err := remote.Open(t.Context(), remote.Options{Project: "shop-prod", Emulator: bq.Address()})
	if err != nil {
		t.Fatal(err)
	}
	run := func(sql string) {
		t.Helper()
		if _, _, err := client.Query(t.Context(), warehouse.Query{Name: "set-up", SQL: sql}, 0); err != nil {
			t.Fatal(err)
		}
	}
	spec := warehouse.Spec{Project: "shop-prod", Dataset: "kafka", Topic: "orders", Format: warehouse.Raw, RetentionDays: 7}
	statements, err := warehouse.Render(spec, warehouse.ObjectRaw, warehouse.ObjectViews, warehouse.ObjectLog)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range statements {
		run(st.SQL)
	}
	id := s.kafka.TopicInfo("orders").TopicID
	land := func(offsets ...int) {
		t.Helper()
		var rows []string
		for _, o := range offsets {
			rows = append(rows, fmt.Sprintf(`('s', 'm%[1]d', TIMESTAMP '%[2]s', b'v', JSON '{"idempotency_key":"v1/msk/orders/%[3]s/1/0/%[1]d","kafka_topic":"orders","kafka_partition":"1","kafka_offset":"%[1]d","kafka_timestamp_ms":"1700000000000"}')`,
				o, time.Now().UTC().Format("2006-01-02 15:04:05+00"), base64.RawURLEncoding.EncodeToString(id[:])))
		}
		run("INSERT INTO `shop-prod.kafka.orders_raw` (subscription_name, message_id, publish_time, data, attributes) VALUES " + strings.Join(rows, ", "))
	}
	land(0, 1, 2, 3, 4, 5, 6, 8, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18)
	code, r, errs := s.audit()
	if len(r.Routes) != 1 || len(r.Routes[0].Problems) > 0 {
		t.Fatalf("exit code %d, %+v, %s", code, r.Routes, errs)
	}
	p := r.Routes[0].Partitions[1]
	want := []string{"mskbridge replay --route orders --partition 1 --from 7 --to 20"}
	if code != 1 || p.Landed != 17 || p.Missing != 3 || p.DuplicatesBySubscription != 1 || !slices.Equal(r.Routes[0].Mend, want) {
		t.Errorf("exit code %d, %+v, %v", code, p.Counts, r.Routes[0].Mend)
	}
	land(7, 9, 19)
	if code, r, errs = s.audit("--settle", "2s"); code != 0 || r.Routes[0].Totals.Landed != 20 || r.Result != "whole" {
		t.Errorf("exit code %d, %+v, %s", code, r.Routes[0], errs)
	}
}
