package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The paths of the server. None ends in z: Cloud Run reserves some of those.
const (
	PathStartup = "/startup"
	PathLive    = "/live"
	PathReady   = "/ready"
	PathLag     = "/lag"
	PathStatus  = "/status.json"
	PathMetrics = "/metrics"
	PathPage    = "/"
)

// lagTimeout bounds /lag, which may ask a broker. It is below the write
// timeout of the server, so that the caller gets an answer that says why.
const lagTimeout = 8 * time.Second

// Options is what the endpoints show.
type Options struct {
	State   func() State // required
	Lag     LagFunc      // required
	Journal *Journal     // required
}

// NewHandler returns the handler of all endpoints. It is safe for concurrent
// use and answers GET and HEAD alone.
func NewHandler(o Options) http.Handler {
	p := newPage()
	mux := http.NewServeMux()
	mux.HandleFunc(PathStartup, func(w http.ResponseWriter, _ *http.Request) {
		s := o.State()
		writeHealth(w, s.startup(time.Now()))
	})
	mux.HandleFunc(PathLive, func(w http.ResponseWriter, _ *http.Request) {
		s := o.State()
		writeHealth(w, s.dead(time.Now()))
	})
	mux.HandleFunc(PathReady, func(w http.ResponseWriter, _ *http.Request) {
		s := o.State()
		writeHealth(w, s.unready())
	})
	mux.HandleFunc(PathLag, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), lagTimeout)
		defer cancel()
		lag, err := o.Lag(ctx)
		if err != nil {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "asking for lag: " + err.Error()})
			return
		}
		if lag.Routes == nil {
			lag.Routes = []RouteLag{}
		}
		writeJSON(w, http.StatusOK, lag)
	})
	mux.HandleFunc(PathStatus, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, newStatus(o.State(), o.Journal))
	})
	mux.Handle(PathMetrics, promhttp.HandlerFor(newRegistry(o.State, o.Journal), promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		Timeout:             lagTimeout,
	}))
	mux.HandleFunc(PathPage+"{$}", func(w http.ResponseWriter, _ *http.Request) {
		p.write(w, newStatus(o.State(), o.Journal))
	})
	return readOnly(mux, p.policy)
}

// status is what /status.json and the page show.
type status struct {
	Now     time.Time `json:"now"`
	Ready   bool      `json:"ready"`
	Unready []string  `json:"unready"` // why not
	State
	Events []Entry `json:"events"` // newest first
}

func newStatus(s State, j *Journal) status {
	unready := s.unready()
	if unready == nil {
		unready = []string{}
	}
	if s.Routes == nil {
		s.Routes = []Route{}
	}
	return status{Now: time.Now(), Ready: len(unready) == 0, Unready: unready, State: s, Events: j.entries()}
}

// readOnly refuses every method that could change something and sets the
// headers that keep a browser from doing more than showing text.
func readOnly(next http.Handler, policy string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writeHealth answers 200 when nothing is wrong, else 503 with the reasons.
func writeHealth(w http.ResponseWriter, reasons []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	body := "ok\n"
	if len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		body = strings.Join(reasons, "\n") + "\n"
	}
	_, _ = w.Write([]byte(body)) // a caller that went away is nobody's error
}

// writeJSON marshals before it writes, so that an error is never half a body.
func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "encoding: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}
