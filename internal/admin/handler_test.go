package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// healthy returns the state of a bridge at work.
func healthy() State {
	now := time.Now()
	return State{
		Version: "v1.2.3", Group: "g", Cluster: "msk", Started: now.Add(-time.Hour),
		BrokerSeen: true, Joined: true, Loops: map[string]time.Time{"poll": now},
		Window: 32 << 20, InHand: 1 << 20,
		Routes: []Route{{
			Topic: "orders", Destination: "projects/p/topics/orders", State: Running, Since: now,
			Partitions: 3, LagRecords: 12, LagSeconds: 1.5, InFlightRequests: 2, InFlightBytes: 4096,
			OldestOpen: now, Records: 100, Acknowledged: 88, Parked: 1, Requests: 9, Retries: 2,
			PublishedBytes: 5000, Fetched: 7,
		}},
	}
}

func noLag(context.Context) (Lag, error) { return Lag{Group: "g"}, nil }

func handler(s State) http.Handler {
	return NewHandler(Options{State: func() State { return s }, Lag: noLag, Journal: &Journal{}})
}

func get(t *testing.T, h http.Handler, method, path string) *http.Response {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
	return rec.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHealth(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name   string
		path   string
		change func(*State)
		code   int
		want   string // part of the body
	}{
		{"startup after a broker answered", PathStartup, func(*State) {}, 200, "ok"},
		{"startup without a broker", PathStartup, func(s *State) { s.BrokerSeen, s.Started = false, now }, 503, "no broker"},
		{"startup without a broker, grace over", PathStartup, func(s *State) { s.BrokerSeen, s.Started = false, now.Add(-StartupGrace) }, 200, "ok"},

		{"live", PathLive, func(*State) {}, 200, "ok"},
		{"live without loops yet", PathLive, func(s *State) { s.Loops = nil }, 200, "ok"},
		{"live with a stamp of 59 s", PathLive, func(s *State) { s.Loops["lane orders"] = now.Add(-59 * time.Second) }, 200, "ok"},
		{"live with a stamp of 61 s", PathLive, func(s *State) { s.Loops["lane orders"] = now.Add(-61 * time.Second) }, 503, "lane orders"},
		{"live while Kafka is away", PathLive, func(s *State) { s.Joined = false; s.Reasons = []string{"no broker"} }, 200, "ok"},
		{"live while all routes are held", PathLive, func(s *State) { s.Routes[0].State = Held }, 200, "ok"},

		{"ready", PathReady, func(*State) {}, 200, "ok"},
		{"ready while a route retries", PathReady, func(s *State) { s.Routes[0].State = Retrying }, 200, "ok"},
		{"ready before the join", PathReady, func(s *State) { s.Joined = false }, 503, "not joined the group g"},
		{"ready with a held route", PathReady, func(s *State) { s.Routes[0].State, s.Routes[0].Reason = Held, "topic not found" }, 503, "orders held: topic not found"},
		{"ready with a reason", PathReady, func(s *State) { s.Reasons = []string{"no broker answers"} }, 503, "no broker answers"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := healthy()
			test.change(&s)
			r := get(t, handler(s), http.MethodGet, test.path)
			if got := body(t, r); r.StatusCode != test.code || !strings.Contains(got, test.want) {
				t.Errorf("%s = %d %q, want %d with %q", test.path, r.StatusCode, got, test.code, test.want)
			}
		})
	}
}

// TestCrawl asks every path with every method: reading works, nothing else
// does, and no answer misses the headers that tie a browser down.
func TestCrawl(t *testing.T) {
	h := handler(healthy())
	paths := map[string]int{
		PathStartup: 200, PathLive: 200, PathReady: 200, PathLag: 200, PathStatus: 200, PathMetrics: 200, PathPage: 200,
		"/healthz": 404, "/debug/pprof/": 404, "/config": 404, "/live/": 404, "/index.html": 404, "/style.css": 404,
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"}
	for path, code := range paths {
		if strings.HasSuffix(path, "z") && code == 200 {
			t.Errorf("%s ends in z, which Cloud Run may keep for itself", path)
		}
		for _, method := range methods {
			t.Run(method+" "+path, func(t *testing.T) {
				want := code
				if method != "GET" && method != "HEAD" {
					want = http.StatusMethodNotAllowed
				}
				r := get(t, h, method, path)
				if r.StatusCode != want {
					t.Errorf("status = %d, want %d", r.StatusCode, want)
				}
				if want == http.StatusMethodNotAllowed && r.Header.Get("Allow") != "GET, HEAD" {
					t.Errorf("Allow = %q", r.Header.Get("Allow"))
				}
				for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Cache-Control", "Content-Type"} {
					if r.Header.Get(name) == "" {
						t.Errorf("header %s is missing", name)
					}
				}
			})
		}
	}
}

func TestLag(t *testing.T) {
	s := healthy()
	lag := func(context.Context) (Lag, error) {
		return Lag{Group: "g", Records: 5, Seconds: 2, Routes: []RouteLag{
			{Topic: "orders", Records: 5, Seconds: 2, State: Held, Reason: "why"},
		}}, nil
	}
	r := get(t, NewHandler(Options{State: func() State { return s }, Lag: lag, Journal: &Journal{}}), "GET", PathLag)
	var compact strings.Builder
	var v any
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&compact).Encode(v); err != nil { // sorts the names
		t.Fatal(err)
	}
	want := `{"group":"g","records":5,"routes":[{"reason":"why","records":5,"seconds":2,"state":"held","topic":"orders"}],"seconds":2}` + "\n"
	if compact.String() != want {
		t.Errorf("got  %swant %s", compact.String(), want)
	}
}

func TestLagThatFails(t *testing.T) {
	lag := func(ctx context.Context) (Lag, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the question has no deadline")
		}
		return Lag{}, errors.New("no broker answers")
	}
	r := get(t, NewHandler(Options{State: healthy, Lag: lag, Journal: &Journal{}}), "GET", PathLag)
	if got := body(t, r); r.StatusCode != 503 || !strings.Contains(got, "no broker answers") {
		t.Errorf("got %d %s", r.StatusCode, got)
	}
}

func TestStatus(t *testing.T) {
	j := &Journal{}
	j.Add(fault.Event{Kind: fault.Loss, Topic: "orders", Partition: 2, First: 10, Next: 25, Reason: "retention"})
	j.Add(fault.Event{Kind: fault.Stopping, Partition: -1, Err: errors.New("cause")})
	h := NewHandler(Options{State: healthy, Lag: noLag, Journal: j})

	var got struct {
		Ready  bool
		Routes []struct {
			Topic, State string
			Acknowledged int64
		}
		Events []struct {
			Event, Topic, Error string
			Partition           *int
			First, Next         int64
		}
	}
	if err := json.NewDecoder(get(t, h, "GET", PathStatus).Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !got.Ready || len(got.Routes) != 1 || got.Routes[0].Acknowledged != 88 || got.Routes[0].State != "running" {
		t.Errorf("state: %+v", got)
	}
	if len(got.Events) != 2 || got.Events[0].Event != "stopping" || got.Events[0].Partition != nil || got.Events[0].Error != "cause" ||
		got.Events[1].Event != "loss" || *got.Events[1].Partition != 2 || got.Events[1].Next != 25 {
		t.Errorf("events: %+v", got.Events)
	}
}

func TestJournalKeepsTheLast(t *testing.T) {
	j := &Journal{}
	for i := range int64(journalLength + 7) {
		j.Add(fault.Event{Kind: fault.RecordParked, Topic: "orders", Size: i})
	}
	got := j.entries()
	if len(got) != journalLength || got[0].Size != journalLength+6 || got[journalLength-1].Size != 7 {
		t.Errorf("%d entries, newest %d, oldest %d", len(got), got[0].Size, got[len(got)-1].Size)
	}
	if n := j.count(fault.RecordParked); n != journalLength+7 {
		t.Errorf("count = %d", n)
	}
	if !slices.Contains(kinds(), fault.RecordParked) {
		t.Error("the kind is not among those that metrics list")
	}
}

// A file that is refused is named, but what is in force works on.
func TestRejectedRoutesFileIsNamedAndHarmless(t *testing.T) {
	s := healthy()
	s.RoutesFile = RoutesFile{Version: "0123456789ab", Rejected: "routes.yaml:3: no such field"}
	if got := get(t, handler(s), http.MethodGet, PathReady); got.StatusCode != http.StatusOK {
		t.Errorf("/ready answers %d", got.StatusCode)
	}
	for path, want := range map[string]string{
		PathStatus: `"rejected": "routes.yaml:3: no such field"`, PathPage: "is not in force: routes.yaml:3: no such field",
	} {
		if got := body(t, get(t, handler(s), http.MethodGet, path)); !strings.Contains(got, want) || !strings.Contains(got, "0123456789ab") {
			t.Errorf("%s lacks %q:\n%s", path, want, got)
		}
	}
	if got := body(t, get(t, handler(healthy()), http.MethodGet, PathStatus)); strings.Contains(got, "routes_file") {
		t.Error("a routes file is shown where there is none")
	}
}
