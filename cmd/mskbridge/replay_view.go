package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/mskbridge/mskbridge/consumer"
)

// replayView shows how far a replay is: one line that changes on a terminal,
// else a line each plainReplay.
type replayView struct {
	out      io.Writer
	terminal bool
	drawn    bool
	next     time.Duration // when the next plain line is due
}

const plainReplay = 10 * time.Second

func newReplayView(out io.Writer) *replayView {
	f, ok := out.(*os.File)
	return &replayView{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

func (v *replayView) draw(r *consumer.Replayed, trouble string, elapsed time.Duration) {
	if !v.terminal && elapsed < v.next {
		return
	}
	v.next = elapsed + plainReplay
	var done, all, records int64
	for _, p := range r.Partitions {
		done, all, records = done+p.Next-p.First, all+p.End-p.First, records+p.Records
	}
	left := "ETA unknown"
	if done > 0 {
		eta := time.Duration(float64(elapsed) * float64(all-done) / float64(done))
		left = "ETA " + eta.Round(time.Second).String()
	}
	line := fmt.Sprintf("%3d%%  %s of %s offsets done, %s records read, %s offsets a second, %s", done*100/max(all, 1),
		humanize.Comma(done), humanize.Comma(all), humanize.Comma(records), humanize.Comma(int64(float64(done)/elapsed.Seconds())), left)
	if why := cmp.Or(r.Trouble, trouble); why != "" {
		line += "  (" + oneLine(errors.New(why)) + ")"
	}
	if v.terminal {
		fmt.Fprint(v.out, "\r\x1b[K"+line)
		v.drawn = true
		return
	}
	fmt.Fprintln(v.out, line)
}

// end leaves the line.
func (v *replayView) end() {
	if v.drawn {
		fmt.Fprintln(v.out)
	}
}

// write shows the result.
func (r *replayResult) write(w io.Writer, output string) error {
	if output == "json" {
		return r.json(w)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "partition\tfrom\tto\tdone below\trecords\tbytes\tholes\tno longer there\tnot there yet\t")
	for _, p := range r.Partitions {
		fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", p.Partition, p.First, p.End, p.Next, p.Records, p.Bytes, p.Holes, p.Gone, p.Ahead)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	verb := "published"
	if r.DryRun {
		verb = "would be published"
	}
	_, err := fmt.Fprintf(w, "\n%s records (%s) read in %s: %s %s, %s parked; %s holes, %s offsets no longer in Kafka, %s not there yet\n",
		humanize.Comma(r.Records), humanize.IBytes(uint64(r.Bytes)), time.Duration(r.Seconds*float64(time.Second)).Round(time.Millisecond),
		humanize.Comma(r.Published), verb, humanize.Comma(r.Parked), humanize.Comma(r.Holes), humanize.Comma(r.Gone), humanize.Comma(r.Ahead))
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
