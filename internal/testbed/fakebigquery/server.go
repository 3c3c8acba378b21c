// Package fakebigquery answers what mskbridge sql asks of BigQuery's REST API,
// with resources that tests write down as the real service words them. It
// executes nothing: package bqemulator does. It knows what that server does not
// say: clusters, JSON columns, the text of views, permissions.
package fakebigquery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// Object is what a statement makes.
type Object struct {
	Path     string // "tables/orders_raw", "routines/orders_merge", below the dataset
	Resource string // JSON as tables.get or routines.get return it
}

// Server is the fake. Use Start.
type Server struct {
	project, dataset string
	http             *httptest.Server
	objects          []Object // by what the statements name, unless they exist

	mu       sync.Mutex // guards what follows
	existing map[string]string
	refuse   func(method, path string) (code int, reason, message string)
	jobs     []string // statements, in order
}

// Start serves a dataset, empty until jobs make the objects. Close it.
func Start(project, dataset string, objects ...Object) *Server {
	s := &Server{project: project, dataset: dataset, objects: objects, existing: map[string]string{}}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Close ends the server, and connections that were dialled and not used at once.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Address returns host:port, the value for BIGQUERY_EMULATOR_HOST.
func (s *Server) Address() string { return s.http.Listener.Addr().String() }

// Refuse decides which requests fail; a code of 0 lets one pass. Jobs have the
// statement for a path.
func (s *Server) Refuse(f func(method, path string) (code int, reason, message string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

// Put stores an object as it is.
func (s *Server) Put(o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.existing[o.Path] = o.Resource
}

// Jobs returns the statements that ran, in order.
func (s *Server) Jobs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.jobs)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	project := "/bigquery/v2/projects/" + s.project
	path, ok := strings.CutPrefix(r.URL.Path, project+"/")
	if !ok {
		fail(w, http.StatusNotFound, "notFound", "Not found: Project "+r.URL.Path)
		return
	}
	switch dataset := "datasets/" + s.dataset; {
	case r.Method == http.MethodPost && path == "jobs":
		s.insert(w, r)
	case strings.HasPrefix(path, "queries/"):
		answer(w, `{"jobComplete": true, "totalRows": "0", "schema": {"fields": []}, "jobReference": %s}`, s.reference())
	case strings.HasPrefix(path, "jobs/"):
		answer(w, `{"jobReference": %s, "configuration": {"query": {"query": ""}}, "status": {"state": "DONE"}, "statistics": {"query": {"totalBytesBilled": "0"}}}`, s.reference())
	case s.refused(w, r.Method, path):
	case path == dataset:
		answer(w, `{"datasetReference": {"projectId": %q, "datasetId": %q}, "location": "EU"}`, s.project, s.dataset)
	case !strings.HasPrefix(path, dataset+"/"):
		fail(w, http.StatusNotFound, "notFound", "Not found: Dataset "+s.project+":"+strings.Split(path, "/")[1])
	default:
		object, _ := strings.CutPrefix(path, dataset+"/")
		resource, ok := s.existing[object]
		if !ok {
			kind, id, _ := strings.Cut(object, "/")
			kind = map[string]string{"tables": "Table", "routines": "Routine"}[kind]
			fail(w, http.StatusNotFound, "notFound", fmt.Sprintf("Not found: %s %s:%s.%s", kind, s.project, s.dataset, id))
			return
		}
		answer(w, "%s", resource)
	}
}

// insert runs a statement: what it names exists from now on.
func (s *Server) insert(w http.ResponseWriter, r *http.Request) {
	var job struct {
		Configuration struct {
			Query struct {
				Query        string `json:"query"`
				UseLegacySQL *bool  `json:"useLegacySql"`
			} `json:"query"`
		} `json:"configuration"`
	}
	if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
		fail(w, http.StatusBadRequest, "parseError", err.Error())
		return
	}
	q := job.Configuration.Query
	if q.UseLegacySQL == nil || *q.UseLegacySQL {
		fail(w, http.StatusBadRequest, "invalidQuery", "legacy SQL knows no such statement")
		return
	}
	if s.refused(w, r.Method, q.Query) {
		return
	}
	s.jobs = append(s.jobs, q.Query)
	head, _, _ := strings.Cut(q.Query, "\n")
	for _, o := range s.objects {
		if _, id, _ := strings.Cut(o.Path, "/"); strings.HasPrefix(head, "CREATE ") && strings.Contains(head, "."+id+"`") {
			s.existing[o.Path] = o.Resource
		}
	}
	answer(w, `{"jobReference": %s, "configuration": {"query": {"query": ""}}, "status": {"state": "RUNNING"}}`, s.reference())
}

func (s *Server) reference() string {
	return fmt.Sprintf(`{"projectId": %q, "jobId": "job", "location": "EU"}`, s.project)
}

func (s *Server) refused(w http.ResponseWriter, method, path string) bool {
	if s.refuse == nil {
		return false
	}
	code, reason, message := s.refuse(method, path)
	if code == 0 {
		return false
	}
	fail(w, code, reason, message)
	return true
}

func answer(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, format, args...)
}

func fail(w http.ResponseWriter, code int, reason, message string) {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{
		"code": code, "message": message, "errors": []map[string]string{{"reason": reason, "message": message, "domain": "global"}},
	}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}
