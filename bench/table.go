//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table is a titled table, the first column left, the others right.
type table struct {
	title string
	rows  [][]string
}

func newTable(title string, columns ...string) *table {
	return &table{title, [][]string{columns}}
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(out io.Writer) error {
	width := 0
	for _, r := range t.rows {
		width = max(width, len(r[0]))
	}
	fmt.Fprintf(out, "\n%s\n", t.title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range t.rows {
		fmt.Fprintf(w, "%-*s\t%s\t\n", width, r[0], strings.Join(r[1:], "\t"))
	}
	return w.Flush()
}

func mib(bytes float64) string { return fmt.Sprintf("%.0f", bytes/(1<<20)) }

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
}

// median of one figure over all rounds.
func median(rounds []window, figure func(window) float64) float64 {
	all := make([]float64, len(rounds))
	for i, w := range rounds {
		all[i] = figure(w)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
