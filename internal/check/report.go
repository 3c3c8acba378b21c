// Package check holds what mskbridge check found out, as rows, and shows them
// to people and machines. It is pure: who asks and what an answer means is not
// its business.
package check

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// Status is the outcome of one row.
type Status string

// The outcomes. Unknown is what could not be found out but does not keep the
// bridge from working: it never fails a check. Unclear is what could not be
// found out and has to be so.
const (
	OK      Status = "ok"
	Warn    Status = "warn"
	Fail    Status = "fail"
	Unknown Status = "unknown"
	Unclear Status = "unclear"
)

// Row is one thing that was looked at.
type Row struct {
	Section string `json:"section"` // groups rows for people
	What    string `json:"what"`
	Status  Status `json:"status"`
	Finding string `json:"finding"`
	// Do says what to do about it, "" for nothing.
	Do string `json:"do,omitempty"`
}

// Report is all rows, those of one section together.
type Report struct{ rows []Row }

// Add adds a row.
func (r *Report) Add(section, what string, status Status, finding, do string) {
	r.rows = append(r.rows, Row{section, what, status, finding, do})
}

// Rows returns the rows in the order in which they were added.
func (r *Report) Rows() []Row { return slices.Clone(r.rows) }

// Code is the exit code: 1 when something would break, else 3 when something
// that matters could not be found out, else 0.
func (r *Report) Code() int {
	switch {
	case r.count(Fail) > 0:
		return fault.CodeFailed
	case r.count(Unclear) > 0:
		return fault.CodeUnknown
	default:
		return fault.CodeOK
	}
}

// Result is Code in a word: ok, fail or unclear.
func (r *Report) Result() Status {
	switch r.Code() {
	case fault.CodeOK:
		return OK
	case fault.CodeUnknown:
		return Unclear
	default:
		return Fail
	}
}

func (r *Report) count(s Status) (n int) {
	for _, row := range r.rows {
		if row.Status == s {
			n++
		}
	}
	return n
}

// Summary says in one line how many rows came out how.
func (r *Report) Summary() string {
	return fmt.Sprintf("%s: %d ok, %d warnings, %d would break, %d not verifiable",
		r.Result(), r.count(OK), r.count(Warn), r.count(Fail), r.count(Unknown)+r.count(Unclear))
}

// JSON writes the report for machines: the result and the rows.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(struct {
		Result Status `json:"result"`
		Rows   []Row  `json:"rows"`
	}{r.Result(), r.rows}); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
