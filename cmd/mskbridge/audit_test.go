package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mskbridge/mskbridge/internal/audit"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

// bigQuery answers Google's client with rows that a test wrote: it knows
// statements by a part of them.
type bigQuery struct {
	rows map[string][]map[string]any // by a part of the statement
	size int64                       // of each statement

	mu  sync.Mutex // guards what follows
	ran []string   // texts
	max []string   // maximumBytesBilled of each
}

func (b *bigQuery) start(t *testing.T) {
	t.Helper()
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	t.Setenv("BIGQUERY_EMULATOR_HOST", strings.TrimPrefix(s.URL, "http://"))
}

func (b *bigQuery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var job struct {
		JobReference  map[string]any `json:"jobReference"`
		Configuration struct {
			DryRun bool `json:"dryRun"`
			Query  struct {
				Query              string `json:"query"`
				MaximumBytesBilled string `json:"maximumBytesBilled"`
			} `json:"query"`
		} `json:"configuration"`
	}
	if b.rows == nil {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"code":404,"message":"Not found: Table shop-prod:kafka.orders_raw","errors":[{"reason":"notFound"}]}}`)
		return
	}

	n := len(b.ran) - 1
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
			panic(err)
		}
		if n = -1; !job.Configuration.DryRun {
			n = len(b.ran)
			b.ran, b.max = append(b.ran, job.Configuration.Query.Query), append(b.max, job.Configuration.Query.MaximumBytesBilled)
		}
	}
	id := fmt.Sprintf("job%d", n)
	answer := map[string]any{
		"kind": "bigquery#job", "id": id, "jobReference": map[string]any{"projectId": "shop-prod", "jobId": id}, "status": map[string]any{"state": "DONE"},
		"configuration": map[string]any{"jobType": "QUERY", "query": map[string]any{"destinationTable": map[string]any{"projectId": "shop-prod", "datasetId": "tmp", "tableId": id}}},
		"statistics":    map[string]any{"totalBytesProcessed": fmt.Sprint(b.size), "query": map[string]any{"statementType": "SELECT", "totalBytesBilled": fmt.Sprint(b.size)}},
	}
	if strings.Contains(r.URL.Path, "/queries/") || strings.Contains(r.URL.Path, "/data") {
		answer = b.answer(b.ran[n])
		answer["jobReference"], answer["jobComplete"] = map[string]any{"projectId": "shop-prod", "jobId": id}, true
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// answer writes rows as BigQuery does: values are strings.
func (b *bigQuery) answer(text string) map[string]any {
	var rows []map[string]any
	for part, some := range b.rows {
		if strings.Contains(text, part) {
			rows = some
		}
	}
	fields, out := []any{}, []any{}
	for i, row := range rows {
		cells := []any{}
		names := make([]string, 0, len(row))
		for name := range row {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			field := map[string]any{"name": name, "type": "INTEGER"}
			value := fmt.Sprint(row[name])
			switch v := row[name].(type) {
			case string:
				field["type"] = "STRING"
			case bool:
				field["type"] = "BOOLEAN"
			case nil, [][2]int:
				field["type"], field["mode"] = "RECORD", "REPEATED"
				field["fields"] = []any{map[string]any{"name": "from_offset", "type": "INTEGER"}, map[string]any{"name": "to_offset", "type": "INTEGER"}}
				list := []any{}
				pairs, _ := v.([][2]int)
				for _, p := range pairs {
					list = append(list, map[string]any{"v": map[string]any{"f": []any{map[string]any{"v": fmt.Sprint(p[0])}, map[string]any{"v": fmt.Sprint(p[1])}}}})
				}
				cells, fields = append(cells, map[string]any{"v": list}), appendFirst(i, fields, field)
				continue
			case int64: // a time, in microseconds
				field["type"] = "TIMESTAMP"
			}
			cells, fields = append(cells, map[string]any{"v": value}), appendFirst(i, fields, field)
		}
		out = append(out, map[string]any{"f": cells})
	}
	return map[string]any{"schema": map[string]any{"fields": fields}, "rows": out, "totalRows": fmt.Sprint(len(rows))}
}

func appendFirst(i int, fields []any, field any) []any {
	if i > 0 {
		return fields
	}
	return append(fields, field)
}

// landed is what the audit of partitions says of partition 1.
func (s *scene) landed(records, missing int, ranges ...[2]int) []map[string]any {
	id := s.kafka.TopicInfo("orders").TopicID
	row := map[string]any{
		"kafka_cluster": "msk", "kafka_topic_id": base64.RawURLEncoding.EncodeToString(id[:]), "kafka_partition": 1, "is_expected": true,
		"landed_records": records, "first_offset": 0, "last_offset": 99, "missing_offsets": missing, "first_ranges": ranges,
		"last_publish_time": int64(1_700_000_000_000_000),
	}
	for _, name := range []string{"holes", "deliveries", "duplicates_by_publisher", "duplicates_by_subscription", "longest_delay_seconds", "conflicting_identities"} {
		row[name] = 0
	}
	return []map[string]any{row}
}

func fresh() []map[string]any {
	return []map[string]any{{
		"watermark": int64(1_700_000_000_000_000), "swept_at": int64(1_700_000_000_000_000), "run_count": 1,
		"minutes_since_merge": 5, "minutes_since_sweep": 5,
	}}
}

// audit runs the command and returns its exit code and report.
func (s *scene) audit(args ...string) (int, audit.Reports, string) {
	s.t.Helper()
	code, out, errs := runCommand(append([]string{"audit", "--route", "orders", "--output", "json", "--settle", "0"}, args...)...)
	var r audit.Reports
	if err := json.Unmarshal([]byte(out), &r); out != "" && err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	return code, r, errs
}

func TestAuditNamesWhatIsMissing(t *testing.T) {
	s := newScene(t, fakekafka.Options{Brokers: 3})
	s.produce(100, 0)
	s.commit(90)
	if err := s.kafka.DeleteRecords("orders", 1, 10); err != nil {
		t.Fatal(err)
	}
	b := &bigQuery{size: 1000, rows: map[string][]map[string]any{
		"copies AS (":            s.landed(75, 5, [2]int{20, 23}, [2]int{50, 52}),
		"AS minutes_since_sweep": fresh(),
	}}
	b.start(t)
	s.watch()
	code, r, errs := s.audit("--max-bytes", "1MB")
	s.changedNothing()
	if len(r.Routes) != 1 {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	route := r.Routes[0]
	p := route.Partitions[1]
	want := []string{"mskbridge replay --route orders --partition 1 --from 20 --to 52"}
	if code != 1 || p.From != 10 || p.To != 90 || p.Expected != 80 || p.Missing != 5 || !slices.Equal(route.Mend, want) {
		t.Errorf("exit code %d, %+v, %v, %v, %s", code, p, route.Mend, route.Problems, errs)
	}
	if len(b.ran) != 5-1 || b.max[0] != "1000000" || b.max[1] != "999000" || r.BilledBytes != 4000 || r.EstimatedBytes != 5000 {
		t.Errorf("%d statements ran, limits %v, estimated %d, billed %d", len(b.ran), b.max, r.EstimatedBytes, r.BilledBytes)
	}
	if route.Partitions[0].Note != "no commit" || !strings.Contains(errs, "reads 5.0 kB at most, limit 1.0 MB (--max-bytes)") {
		t.Errorf("%+v, %s", route.Partitions[0], errs)
	}
}

func TestAuditShowsATable(t *testing.T) {
	s := newScene(t, fakekafka.Options{})
	s.produce(100, 0)
	s.commit(100)
	b := &bigQuery{size: 1000, rows: map[string][]map[string]any{
		"copies AS (": s.landed(100, 0), "AS minutes_since_sweep": fresh(),
	}}
	b.start(t)
	code, out, errs := runCommand("audit")
	for _, want := range []string{"route orders, topic id ", "copies by publisher", "whole: 100 of 100 expected offsets landed, 0 missing", "log: merged up to 2023-11-14"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
	code, out, _ = runCommand("audit", "--dry-run")
	if code != 0 || !strings.Contains(out, "would read 7.0 kB at most") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestAuditCannotFindOut(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		broken func(*testing.T, *bigQuery)
		want   string
	}{
		{"raw table is missing", nil, func(_ *testing.T, b *bigQuery) { b.rows = nil }, "mskbridge sql --apply"},
		{"limit is too low", []string{"--max-bytes", "4kB"}, func(*testing.T, *bigQuery) {}, "raise --max-bytes"},
		{"Kafka is unreachable", nil, func(t *testing.T, _ *bigQuery) { t.Helper(); t.Setenv("BRIDGE_BROKERS", hangUp(t)) }, "asking Kafka"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, fakekafka.Options{})
			s.produce(10, 0)
			s.commit(10)
			b := &bigQuery{size: 1000, rows: map[string][]map[string]any{"copies AS (": s.landed(10, 0), "AS minutes_since_sweep": fresh()}}
			tt.broken(t, b)
			b.start(t)
			code, r, errs := s.audit(tt.args...)
			if code != 3 || len(r.Routes) != 1 || !strings.Contains(strings.Join(r.Routes[0].Problems, "\n"), tt.want) || len(b.ran) > 0 {
				t.Errorf("exit code %d, %+v, %s", code, r.Routes, errs)
			}
		})
	}
}

// A report that nobody gets does not say that records are missing.
func TestAuditCannotWrite(t *testing.T) {
	s := newScene(t, fakekafka.Options{})
	s.produce(10, 0)
	s.commit(10)
	b := &bigQuery{size: 1000, rows: map[string][]map[string]any{"copies AS (": s.landed(10, 0), "AS minutes_since_sweep": fresh()}}
	b.start(t)
	for _, output := range []string{"table", "json"} {
		full, into := io.Pipe()
		full.Close()
		if code := execute([]string{"audit", "--output", output}, into, io.Discard); code != 3 {
			t.Errorf("%s: exit code %d, want 3", output, code)
		}
	}
}

func TestAuditRefusesWhatCannotBe(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"no such route", "--route payments", `"payments"`},
		{"no time", "--since yesterday", "RFC 3339"},
		{"a time ahead", "--since 2100-01-02T15:04:05Z", "lies ahead"},
		{"a time that is a code to Kafka", "--since 1969-12-31T23:59:59.999Z", "before 1970"},
		{"longer ago than there are times", "--since 2562047h", "before 1970"},
		{"a moment ago", "--since 1ns", "less than a minute"},
		{"no size", "--max-bytes much", "50GB"},
		{"a size in another language", "--max-bytes 1,5GB", "50GB"},
		{"no bytes at all", "--max-bytes 0", "50GB"},
		{"negative wait", "--settle -1s", "negative"},
		{"no such output", "--output xml", "table or json"},
		{"no dataset", "--dataset a-b", "--dataset"},
		{"an argument", "orders", "unknown command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, fakekafka.Options{})
			s.watch()
			code, out, errs := runCommand(append([]string{"audit"}, strings.Fields(tt.args)...)...)
			if code != 2 || out != "" || !strings.Contains(errs, tt.want) || len(s.asked) > 0 {
				t.Errorf("exit code %d, %q %q, want 2 with %q", code, out, errs, tt.want)
			}
		})
	}
}
