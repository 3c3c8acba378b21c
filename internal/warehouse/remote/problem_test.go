package remote

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"cloud.google.com/go/bigquery"
	"google.golang.org/api/googleapi"
)

func TestExplain(t *testing.T) {
	answered := func(code int, reason, message string) error {
		return &googleapi.Error{Code: code, Message: message, Errors: []googleapi.ErrorItem{{Reason: reason, Message: message}}}
	}
	tests := []struct {
		name string
		err  error
		kind Kind
		want string
	}{
		{"jobs", answered(403, "accessDenied", "Access Denied: Project example-project: User does not have bigquery.jobs.create permission in project example-project."), Denied, "grant bigquery.jobs.create on project example-project (roles/bigquery.jobUser): running x: Access Denied"},
		{"a table that may not be read", answered(403, "accessDenied", "Access Denied: Table data-project:kafka.orders_raw: User does not have permission to query table data-project:kafka.orders_raw, or perhaps it does not exist."), Denied, "grant bigquery.tables.getData on table data-project.kafka.orders_raw (roles/bigquery.dataViewer on its dataset)"},
		{"a dataset that may not be changed", answered(403, "accessDenied", "Access Denied: Dataset example-project:kafka: Permission bigquery.tables.create denied on dataset example-project:kafka (or it may not exist)."), Denied, "grant bigquery.tables.create on dataset example-project.kafka (roles/bigquery.dataEditor on its dataset)"},
		{"within a job", &bigquery.Error{Reason: "accessDenied", Message: "Access Denied: Table p:d.t: User does not have permission to query table p:d.t"}, Denied, "bigquery.tables.getData on table p.d.t"},
		{"dataset", answered(404, "notFound", "Not found: Dataset data-project:kafka was not found in location US"), Missing, "dataset data-project.kafka is missing: bq --location=LOCATION mk --dataset data-project:kafka"},
		{"table", answered(404, "notFound", "Not found: Table example-project:kafka.orders_raw was not found in location EU"), Missing, "table example-project.kafka.orders_raw is missing: mskbridge sql --apply makes it"},
		{"bytes", answered(400, "bytesBilledLimitExceeded", "Query exceeded limit for bytes billed: 1000000. 10485760 or higher required."), TooMuch, "it would bill 10485760 bytes: raise --max-bytes to that"},
		{"bytes within a job", &bigquery.Error{Reason: "bytesBilledLimitExceeded", Message: "Query exceeded limit for bytes billed."}, TooMuch, "more than --max-bytes allows"},
		{"the API is off", answered(403, "accessNotConfigured", "BigQuery API has not been used in project 1 before or it is disabled."), Other, "running x: BigQuery API has not been used"},
		{"too many requests", answered(403, "rateLimitExceeded", "Exceeded rate limits"), Other, "running x: Exceeded rate limits"},
		{"no text", answered(500, "", ""), Other, "running x: Internal Server Error"},
		{"not BigQuery's", errors.New("no route to host"), Other, "running x: no route to host"},
	}
	c, err := Open(t.Context(), Options{Project: "example-project", Emulator: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := c.explain("running x", test.err)
			if !strings.Contains(err.Error(), test.want) || KindOf(err) != test.kind {
				t.Errorf("kind %d: %v\nwant kind %d: %s", KindOf(err), err, test.kind, test.want)
			}
			if !errors.Is(err, test.err) {
				t.Error("the library's error is lost")
			}
		})
	}
	if c.explain("running x", nil) != nil {
		t.Error("nothing is explained")
	}
}

func TestOpenNeedsAProject(t *testing.T) {
	if _, err := Open(t.Context(), Options{Emulator: "127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "no project") {
		t.Errorf("error %v", err)
	}
}

func TestStatusText(t *testing.T) {
	_, _, message := answer(&googleapi.Error{Code: http.StatusTeapot})
	if message != "I'm a teapot" {
		t.Errorf("message %q", message)
	}
}
