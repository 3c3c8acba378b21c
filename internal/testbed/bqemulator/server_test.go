//go:build integration && unix

package bqemulator

import (
	"errors"
	"os"
	"testing"
	"time"

	"cloud.google.com/go/bigquery"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

func TestAnswersGooglesClient(t *testing.T) {
	began := time.Now()
	s, err := Start(t.Context())
	if _, ok := errors.AsType[*process.MissingError](err); ok && os.Getenv("MSKBRIDGE_REQUIRE_PARTS") != "1" {
		t.Skipf("SKIPPED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	t.Logf("up after %v", time.Since(began).Round(time.Millisecond))

	client, err := bigquery.NewClient(t.Context(), "example-project",
		option.WithEndpoint("http://"+s.Address()+"/bigquery/v2/"), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Dataset("kafka").Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	rows, err := client.Query("SELECT 41 + 1 AS answer").Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var row map[string]bigquery.Value
	if err := rows.Next(&row); err != nil || row["answer"] != int64(42) {
		t.Errorf("row %v, error %v", row, err)
	}
	if err := rows.Next(&row); !errors.Is(err, iterator.Done) {
		t.Errorf("a second row: %v", err)
	}
}
