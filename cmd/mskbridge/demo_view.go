package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/internal/testbed/stage"
)

const (
	viewStatus = 500 * time.Millisecond // limit of a question to the bridge
	plainEvery = 2 * time.Second        // between lines where there is no terminal
	viewRoutes = 30                     // rows at most
)

// view shows progress: a table that redraws itself on a terminal, else lines.
type view struct {
	out      io.Writer
	child    *child
	stage    *stage.Stage
	terminal bool
	rows     int // drawn last, to draw over
	plainAt  time.Time
	before   map[string]int64 // acknowledged records at the last draw
	drawnAt  time.Time
	notes    []string // not yet shown
}

func newView(out io.Writer, c *child, s *stage.Stage) *view {
	v := &view{out: out, child: c, stage: s, before: map[string]int64{}, drawnAt: time.Now()}
	if f, ok := out.(*os.File); ok {
		v.terminal = term.IsTerminal(int(f.Fd()))
	}
	return v
}

// note shows a line that stays.
func (v *view) note(line string) { v.notes = append(v.notes, line) }

// draw shows the state of now.
func (v *view) draw(c stage.Counts, elapsed time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), viewStatus) //nolint:forbidigo // a look, bounded by itself
	defer cancel()
	state, err := v.child.status(ctx)
	summary := fmt.Sprintf("%4.0fs  produced %s  received %s  duplicates %s  parked %d  outstanding %s", elapsed.Seconds(),
		humanize.Comma(c.Produced), humanize.Comma(c.Received), humanize.Comma(c.Duplicates), c.Parked, humanize.Comma(c.Missing))
	if v.terminal {
		v.drawTable(summary, state, err)
		return
	}
	for _, n := range v.notes {
		fmt.Fprintln(v.out, "      "+n)
	}
	v.notes = nil
	if time.Since(v.plainAt) >= plainEvery {
		v.plainAt = time.Now()
		fmt.Fprintln(v.out, summary)
	}
}

// drawTable draws over the table before.
func (v *view) drawTable(summary string, state admin.State, err error) {
	var b strings.Builder
	if v.rows > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", v.rows)
	}
	for _, n := range v.notes {
		fmt.Fprintln(&b, n)
	}
	v.notes = nil
	var table strings.Builder
	fmt.Fprintln(&table, summary)
	if err != nil {
		fmt.Fprintln(&table, "the bridge does not answer")
	} else {
		v.routes(&table, state)
	}
	v.rows = strings.Count(table.String(), "\n")
	_, _ = io.WriteString(v.out, b.String()+table.String()) // nobody is left to tell
}

func (v *view) routes(out io.Writer, state admin.State) {
	seconds := time.Since(v.drawnAt).Seconds()
	v.drawnAt = time.Now()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "route\tstate\trecords/s\tlag\tin flight\tparked\tlast error")
	for i, r := range state.Routes {
		rate := float64(max(r.Acknowledged-v.before[r.Topic], 0)) / seconds
		v.before[r.Topic] = r.Acknowledged
		if i < viewRoutes {
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\t%d (%s)\t%d\t%s\n", r.Topic, r.State, rate, humanize.Comma(r.LagRecords),
				r.InFlightRequests, humanize.IBytes(uint64(max(r.InFlightBytes, 0))), r.Parked, clip(r.LastError))
		}
	}
	_ = w.Flush()
	if more := len(state.Routes) - viewRoutes; more > 0 {
		fmt.Fprintf(out, "and %d routes more: see the status page\n", more)
	}
}

// end leaves the table as it is.
func (v *view) end() { v.rows = 0 }

// clip keeps a row on one line.
func clip(s string) string {
	const most = 48
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
