package admin

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mskbridge/mskbridge/internal/fault"
)

func TestMetrics(t *testing.T) {
	s := healthy()
	s.Loops["lane orders"] = time.Now().Add(-30 * time.Second)
	s.Routes = append(s.Routes, Route{Topic: "pay\xffments", State: Held})
	j := &Journal{}
	j.Add(fault.Event{Kind: fault.Loss, Topic: "orders", First: 10, Next: 25})
	j.Add(fault.Event{Kind: fault.Loss, Topic: "orders", First: 30, Next: 31})
	h := NewHandler(Options{State: func() State { return s }, Lag: noLag, Journal: j})

	got := body(t, get(t, h, http.MethodGet, PathMetrics))
	for _, want := range []string{
		`mskbridge_build_info{version="v1.2.3"} 1`,
		`mskbridge_joined 1`,
		`mskbridge_ready 0`,
		`mskbridge_window_bytes 3.3554432e+07`,
		`mskbridge_in_hand_bytes 1.048576e+06`,
		`mskbridge_loop_age_seconds 30`,
		`mskbridge_held{topic="orders"} 0`,
		`mskbridge_held{topic="pay?ments"} 1`,
		`mskbridge_assigned_partitions{topic="orders"} 3`,
		`mskbridge_lag_records{topic="orders"} 12`,
		`mskbridge_lag_seconds{topic="orders"} 1.5`,
		`mskbridge_polled_records_total{topic="orders"} 100`,
		`mskbridge_acknowledged_records_total{topic="orders"} 88`,
		`mskbridge_parked_records_total{topic="orders"} 1`,
		`mskbridge_publish_retries_total{topic="orders"} 2`,
		`mskbridge_fetched_records_total{topic="orders"} 7`,
		`mskbridge_events_total{event="loss"} 2`,
		`mskbridge_events_total{event="truncated"} 0`,
		`mskbridge_lost_offsets_total{topic="orders"} 16`,
		`go_goroutines `,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("no line begins with %s", want)
		}
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	problems, err := testutil.CollectAndLint(newCollector(healthy, &Journal{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestMetricsAreDocumented holds docs/operations.md and the code together.
func TestMetricsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(mskbridge_[a-z_]+)").FindAllStringSubmatch(string(doc), -1) {
		documented[m[1]] = true
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newCollector(healthy, &Journal{}))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !documented[f.GetName()] {
			t.Errorf("%s is not in the table of docs/operations.md", f.GetName())
		}
		delete(documented, f.GetName())
	}
	for name := range documented {
		t.Errorf("docs/operations.md has %s, which does not exist", name)
	}
	for _, k := range kinds() {
		if !strings.Contains(string(doc), "`"+string(k)+"`") {
			t.Errorf("event %s is not in docs/operations.md", k)
		}
	}
}
