package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/fault"
)

func TestPageEscapes(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}'&`
	s := healthy()
	s.Group, s.Cluster, s.Version = hostile, hostile, hostile
	s.Reasons = []string{hostile}
	s.RoutesFile = RoutesFile{Version: hostile, Rejected: hostile}
	s.Routes = []Route{{Topic: hostile, Destination: hostile, State: RouteState(hostile), Reason: hostile, LastError: hostile}}
	j := &Journal{}
	j.Add(fault.Event{Kind: fault.Kind(hostile), Topic: hostile, Reason: hostile})
	h := NewHandler(Options{State: func() State { return s }, Lag: noLag, Journal: j})

	got := body(t, get(t, h, http.MethodGet, PathPage))
	if strings.Contains(got, "<script") || strings.Contains(got, "<img") {
		t.Error("markup of a name reached the page")
	}
	if n := strings.Count(got, "&lt;script&gt;"); n < 12 {
		t.Errorf("the hostile text is on the page %d times, want each of 12 fields", n)
	}
}

func TestPageLoadsNothing(t *testing.T) {
	r := get(t, handler(healthy()), http.MethodGet, PathPage)
	got := body(t, r)
	if m := regexp.MustCompile(`(?i)<(script|link|img|iframe|object|form|base)\b|https?://|url\(|@import|\sstyle=|\son[a-z]+=`).FindString(got); m != "" {
		t.Errorf("the page has %q", m)
	}
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(got)
	if style == nil {
		t.Fatal("no style sheet")
	}
	sum := sha256.Sum256([]byte(style[1]))
	want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	policy := r.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, want) || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("policy %q does not admit the style sheet alone (%s)", policy, want)
	}
	for _, need := range []string{"orders", "projects/p/topics/orders", "running", "1.0 MiB of 32 MiB", `http-equiv="refresh"`, "width=device-width"} {
		if !strings.Contains(got, need) {
			t.Errorf("the page lacks %q", need)
		}
	}
}

func TestPageWithoutRoutes(t *testing.T) {
	r := get(t, handler(State{}), http.MethodGet, PathPage)
	if got := body(t, r); r.StatusCode != 200 || !strings.Contains(got, "No routes.") || !strings.Contains(got, "not ready") {
		t.Errorf("%d %s", r.StatusCode, got)
	}
}
