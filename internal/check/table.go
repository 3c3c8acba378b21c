package check

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostWhat bounds the column that names things; longer names push what follows.
const mostWhat = 44

// colours of the outcomes, for terminals.
var colours = map[Status]string{ //nolint:gochecknoglobals // a constant table
	OK: "\x1b[32m", Warn: "\x1b[33m", Fail: "\x1b[1;31m", Unknown: "\x1b[36m", Unclear: "\x1b[1;35m",
}

// Table writes the report for people: sections, a line for each row and below
// it, where there is something to do, what. Only with colour has it more than
// printable characters and line ends.
func (r *Report) Table(w io.Writer, colour bool) error {
	width := 0
	for _, row := range r.rows {
		width = max(width, min(utf8.RuneCountInString(row.What), mostWhat))
	}
	var b strings.Builder
	section := ""
	for _, row := range r.rows {
		if row.Section != section {
			if section != "" {
				b.WriteString("\n")
			}
			section = row.Section
			b.WriteString(printable(section) + "\n")
		}
		status := fmt.Sprintf("%-7s", row.Status)
		if colour {
			status = colours[row.Status] + status + "\x1b[0m"
		}
		fmt.Fprintf(&b, "  %s  %-*s  %s\n", status, width, printable(row.What), printable(row.Finding))
		if row.Do != "" {
			fmt.Fprintf(&b, "  %-7s  %-*s  -> %s\n", "", width, "", printable(row.Do))
		}
	}
	b.WriteString("\n" + r.Summary() + "\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// printable keeps what servers said on one line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
