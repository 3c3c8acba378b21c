package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/testbed/fakebigquery"
)

// inBigQuery gives a scene a dataset with a raw table, which change may spoil.
func inBigQuery(change func(*scene, *fakebigquery.Server)) func(*scene) {
	return func(s *scene) {
		bq := fakebigquery.Start("shop-prod", "kafka")
		s.t.Cleanup(bq.Close)
		bq.Put(rawObject)
		s.t.Setenv("BRIDGE_DATASET", "kafka")
		s.t.Setenv("BIGQUERY_EMULATOR_HOST", bq.Address())
		if change != nil {
			change(s, bq)
		}
	}
}

func TestCheckLooksAtBigQuery(t *testing.T) {
	stored := func(old, changed string) func(*scene) {
		return inBigQuery(func(_ *scene, bq *fakebigquery.Server) {
			bq.Put(fakebigquery.Object{Path: rawObject.Path, Resource: strings.Replace(storedRaw, old, changed, 1)})
		})
	}
	refuse := func(message string) func(*scene) {
		return inBigQuery(func(_ *scene, bq *fakebigquery.Server) {
			bq.Refuse(func(string, string) (int, string, string) { return http.StatusForbidden, "accessDenied", message })
		})
	}
	for _, b := range []brokenSetUp{
		{name: "all is well", spoil: inBigQuery(nil), want: wanted{"table kafka.orders_raw", check.OK, "has the columns", ""}},
		{
			name: "a column of another type", spoil: stored(`"data", "type": "BYTES"`, `"data", "type": "STRING"`), code: 1,
			want: wanted{"table kafka.orders_raw", check.Fail, "column data is STRING, not BYTES", "mskbridge sql --check"},
		},
		{name: "another expiration", spoil: stored("2592000000", "86400000"), want: wanted{"table kafka.orders_raw", check.OK, "", ""}},
		{
			name: "no table", spoil: inBigQuery(func(s *scene, _ *fakebigquery.Server) { s.t.Setenv("BRIDGE_TOPICS", "orders,refunds=orders") }), code: 1,
			want: wanted{"table kafka.refunds_raw", check.Fail, "does not exist", "mskbridge sql --apply"},
		},
		{
			name: "no dataset", spoil: inBigQuery(func(s *scene, _ *fakebigquery.Server) { s.t.Setenv("BRIDGE_DATASET", "other") }), code: 1,
			want: wanted{"dataset other", check.Fail, "does not exist", "bq --location=LOCATION mk --dataset shop-prod:other"},
		},
		{
			name: "nothing may be read", spoil: refuse("Access Denied: Table shop-prod:kafka.orders_raw: Permission bigquery.tables.get denied"),
			want: wanted{"table kafka.orders_raw", check.Unknown, "not verifiable: grant bigquery.tables.get on table shop-prod.kafka.orders_raw", ""},
		},
	} {
		t.Run(b.name, b.run)
	}
}

// TestCheckWithoutDatasetAsksNoBigQuery keeps the bridge from needing what it
// does not use.
func TestCheckWithoutDatasetAsksNoBigQuery(t *testing.T) {
	b := brokenSetUp{
		name: "none", spoil: inBigQuery(func(s *scene, bq *fakebigquery.Server) {
			s.t.Setenv("BRIDGE_DATASET", "")
			bq.Refuse(func(string, string) (int, string, string) {
				t.Error("BigQuery was asked")
				return http.StatusForbidden, "accessDenied", "no"
			})
		}),
		want: wanted{"configuration", check.OK, "", ""},
	}
	b.run(t)
}
