package remote

import (
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigquery"
	"cloud.google.com/go/civil"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

func TestRowOf(t *testing.T) {
	now := time.Now()
	got, err := rowOf(map[string]bigquery.Value{
		"nothing": nil, "text": "a", "truth": true, "whole": int64(7), "float": 1.5, "bytes": []byte{0xff}, "time": now,
		"day": civil.Date{Year: 2026, Month: 11, Day: 30}, "sum": big.NewRat(12, 1), "ratio": big.NewRat(1, 2),
		"ranges": []bigquery.Value{map[string]bigquery.Value{"from_offset": int64(1), "to_offset": nil}},
	})
	want := warehouse.Row{
		"nothing": nil, "text": "a", "truth": true, "whole": int64(7), "float": 1.5, "bytes": []byte{0xff}, "time": now,
		"day": warehouse.Date("2026-11-30"), "sum": int64(12), "ratio": 0.5,
		"ranges": []any{warehouse.Row{"from_offset": int64(1), "to_offset": nil}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("row %v, error %v", got, err)
	}
	if _, err := rowOf(map[string]bigquery.Value{"odd": civil.Time{}}); err == nil || !strings.Contains(err.Error(), "column odd") {
		t.Errorf("error %v", err)
	}
}

func TestParamRefuses(t *testing.T) {
	for _, value := range []any{nil, int32(1), warehouse.Date("30.11.2026"), []string{"a"}} {
		if got, err := param(value); err == nil {
			t.Errorf("%T is taken as %v", value, got)
		}
	}
}

func TestLabelIsLegal(t *testing.T) {
	if got := label("Audit.Parts " + strings.Repeat("x", 80)); len(got) != 63 || !strings.HasPrefix(got, "audit_parts_xxx") {
		t.Errorf("label %q", got)
	}
}
