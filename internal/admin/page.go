package admin

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"time"

	"github.com/dustin/go-humanize"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// page renders the status for people. It has no script and loads nothing, and
// its policy lets a browser apply the one style sheet it carries and no other.
type page struct {
	tmpl   *template.Template
	policy string // Content-Security-Policy
}

func newPage() *page {
	sum := sha256.Sum256([]byte(pageCSS))
	return &page{
		tmpl: template.Must(template.New("page").Funcs(template.FuncMap{
			"age":   age,
			"bytes": func(n int64) string { return humanize.IBytes(uint64(max(0, n))) },
			"count": humanize.Comma,
			"secs":  func(s float64) string { return time.Duration(s * float64(time.Second)).Round(time.Second).String() },
			"style": func() template.CSS { return template.CSS(pageCSS) }, //nolint:gosec // a constant of this binary
		}).Parse(pageHTML)),
		policy: "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
			"style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
	}
}

// write renders s whole before it sends the first byte.
func (p *page) write(w http.ResponseWriter, s status) {
	var body bytes.Buffer
	if err := p.tmpl.Execute(&body, s); err != nil {
		http.Error(w, "rendering the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body.Bytes())
}

// age says how long before now t was, in whole seconds; "-" for no time.
func age(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return max(0, now.Sub(t)).Round(time.Second).String()
}
