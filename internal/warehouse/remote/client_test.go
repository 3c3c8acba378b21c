package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// jobServer takes one job and finishes it when told.
type jobServer struct {
	bodies    chan string   // of inserted jobs
	asked     chan struct{} // closed by the first question for results
	finish    chan struct{} // closed by the test
	cancelled chan struct{} // closed by a request to cancel
}

func (s *jobServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const reference = `"jobReference": {"projectId": "payer-project", "jobId": "job", "location": "EU"}`
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/cancel"):
		close(s.cancelled)
		fmt.Fprint(w, `{}`)
	case r.Method == http.MethodPost:
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		s.bodies <- string(body)
		fmt.Fprintf(w, `{%s, "configuration": {"query": {"query": "SELECT 1"}}, "status": {"state": "RUNNING"}, "statistics": {"totalBytesProcessed": "123456"}}`, reference)
	case strings.Contains(r.URL.Path, "/queries/"):
		select {
		case <-s.asked:
		default:
			close(s.asked)
		}
		select {
		case <-s.finish:
			fmt.Fprintf(w, `{%s, "jobComplete": true, "totalRows": "1", "schema": {"fields": [{"name": "n", "type": "INTEGER"}]}, "rows": [{"f": [{"v": "7"}]}]}`, reference)
		case <-r.Context().Done():
		}
	default:
		fmt.Fprintf(w, `{%s, "status": {"state": "DONE"}, "statistics": {"query": {"totalBytesBilled": "10485760"}}}`, reference)
	}
}

func newJobServer(t *testing.T) (*jobServer, *Client) {
	t.Helper()
	s := &jobServer{make(chan string, 10), make(chan struct{}), make(chan struct{}), make(chan struct{})}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections() // Close waits 5 s for one that was dialled and not used
		server.Close()
	})
	c, err := Open(t.Context(), Options{Project: "payer-project", Location: "EU", Emulator: server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestQuerySaysWhatItMayCost(t *testing.T) {
	s, c := newJobServer(t)
	close(s.finish)
	q := warehouse.Query{Name: "audit_keys", SQL: "-- why\nSELECT 1", Params: map[string]any{"day": warehouse.Date("2026-11-30")}}
	rows, billed, err := c.Query(t.Context(), q, 1<<40)
	if err != nil || billed != 10485760 || len(rows) != 1 || rows[0]["n"] != int64(7) {
		t.Errorf("rows %v, billed %d, error %v", rows, billed, err)
	}
	body := <-s.bodies
	for _, want := range []string{
		`"maximumBytesBilled":"1099511627776"`, `"useLegacySql":false`, `"query":"SELECT 1"`, `"labels":{"mskbridge":"audit_keys"}`,
		`"location":"EU"`, `"projectId":"payer-project"`, `"name":"day","parameterType":{"type":"DATE"},"parameterValue":{"value":"2026-11-30"}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	bytes, err := c.Estimate(t.Context(), q)
	if body := <-s.bodies; err != nil || bytes != 123456 || !strings.Contains(body, `"dryRun":true`) {
		t.Errorf("estimate %d, error %v, job %s", bytes, err, body)
	}
}

func TestQueryIsCancelledWithItsContext(t *testing.T) {
	s, c := newJobServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.asked
		cancel()
	}()
	_, _, err := c.Query(ctx, warehouse.Query{Name: "long", SQL: "SELECT 1"}, 0)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	select {
	case <-s.cancelled:
	default:
		t.Error("the job goes on, and is billed")
	}
}
