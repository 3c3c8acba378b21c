package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/bigquery"
	"google.golang.org/api/googleapi"
)

// Kind is what stands in the way, as far as somebody can act on it.
type Kind uint8

// The kinds.
const (
	Other   Kind = iota
	Denied       // a permission is missing
	Missing      // a dataset, table or routine does not exist
	TooMuch      // it would bill more bytes than allowed
)

// Error is an error of BigQuery. Its text says what to do about it.
type Error struct {
	Kind   Kind
	Advice string // one clause, "" for Other
	text   string
	err    error // the library's
}

func (p *Error) Error() string {
	if p.Advice == "" {
		return p.text
	}
	return p.Advice + ": " + p.text
}

// Unwrap returns the library's error, whose text says the same with more words.
func (p *Error) Unwrap() error { return p.err }

// KindOf returns the kind of an error, Other for one that is no Error.
func KindOf(err error) Kind {
	if p, ok := errors.AsType[*Error](err); ok {
		return p.Kind
	}
	return Other
}

// AdviceOf returns what an error says to do about it, "" for one that is no Error.
func AdviceOf(err error) string {
	if p, ok := errors.AsType[*Error](err); ok {
		return p.Advice
	}
	return ""
}

// BigQuery names what it refuses in words only. Backquotes, quotes and full
// stops around a name are not part of it.
var (
	permission = regexp.MustCompile(`\bbigquery\.[a-z]+\.[a-zA-Z]+`)
	resource   = regexp.MustCompile(`\b([Pp]roject|[Dd]ataset|[Tt]able|[Rr]outine)[ :] *['"` + "`" + `]?([a-zA-Z][^\s'"` + "`" + `]*[a-zA-Z0-9_])`)
	billable   = regexp.MustCompile(`\b(\d+) or higher required`)
)

// explain names an error for people, nil for none. doing is a gerund.
func (c *Client) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	code, reason, message := answer(err)
	if code == 0 && reason == "" {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			doing += ": BigQuery did not answer in time"
		case errors.Is(err, context.Canceled):
			doing += ": stopped"
		}
		return fmt.Errorf("%s: %w", doing, err)
	}
	p := &Error{text: doing + ": " + message, err: err}
	kind, name := named(message)
	switch {
	case reason == "bytesBilledLimitExceeded":
		p.Kind = TooMuch
		p.Advice = "it would bill more than --max-bytes allows"
		if m := billable.FindStringSubmatch(message); m != nil {
			p.Advice = fmt.Sprintf("it would bill %s bytes: raise --max-bytes to that, or narrow the time with --since", m[1])
		}
	case reason == "accessDenied" || code == http.StatusForbidden && slices.Contains([]string{"", "forbidden", "insufficientPermissions"}, reason):
		p.Kind, p.Advice = Denied, c.grant(kind, name, permission.FindString(message))
	case code == http.StatusNotFound || reason == "notFound":
		p.Kind, p.Advice = Missing, c.create(kind, name)
	}
	return p
}

// answer takes an error of the library apart: HTTP status, reason, text.
func answer(err error) (code int, reason, message string) {
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		if len(e.Errors) > 0 {
			reason = e.Errors[0].Reason
		}
		return e.Code, reason, cmp.Or(e.Message, http.StatusText(e.Code))
	}
	if e, ok := errors.AsType[*bigquery.Error](err); ok {
		return 0, e.Reason, e.Message
	}
	return 0, "", ""
}

// named finds the first resource that a message speaks of: its kind in lower
// case, and its name with dots alone.
func named(message string) (kind, name string) {
	m := resource.FindStringSubmatch(message)
	if m == nil {
		return "", ""
	}
	return strings.ToLower(m[1]), strings.ReplaceAll(m[2], ":", ".")
}

// grant says which role has the permission, and where.
func (c *Client) grant(kind, name, permission string) string {
	project := c.bq.Project()
	if permission == "" {
		permission = "bigquery.tables.getData"
		if kind == "project" {
			permission = "bigquery.jobs.create"
		}
	}
	switch {
	case permission == "bigquery.jobs.create":
		return fmt.Sprintf("grant %s on project %s (roles/bigquery.jobUser)", permission, project)
	case strings.HasSuffix(permission, ".getData") || strings.HasSuffix(permission, ".get") || strings.HasSuffix(permission, ".list"):
		return fmt.Sprintf("grant %s on %s (roles/bigquery.dataViewer on its dataset)", permission, cmp.Or(strings.TrimSpace(kind+" "+name), "the dataset"))
	default:
		return fmt.Sprintf("grant %s on %s (roles/bigquery.dataEditor on its dataset)", permission, cmp.Or(strings.TrimSpace(kind+" "+name), "the dataset"))
	}
}

// create says how to make what is missing. Datasets are never made by us: their
// location cannot be changed later, and is for the owner to choose.
func (c *Client) create(kind, name string) string {
	switch kind {
	case "project":
		return fmt.Sprintf("there is no project %s, or it is not ours to see: set BRIDGE_PROJECT or name it in --dataset", name)
	case "dataset":
		return fmt.Sprintf("dataset %s is missing: %s", name, MakeDataset(name, c.bq.Project()))
	case "table", "routine":
		return fmt.Sprintf("%s %s is missing: mskbridge sql --apply makes it", kind, name)
	default:
		return "something it names is missing: mskbridge sql --apply makes tables, views and procedures"
	}
}

// MakeDataset is the command that makes a dataset, "P.D" or "D" in project.
func MakeDataset(dataset, project string) string {
	if i := strings.LastIndexByte(dataset, '.'); i >= 0 {
		project, dataset = dataset[:i], dataset[i+1:]
	}
	return fmt.Sprintf("bq --location=LOCATION mk --dataset %s:%s", project, dataset)
}
