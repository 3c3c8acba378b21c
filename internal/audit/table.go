package audit

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
)

// staleSweep is when the log's age becomes a finding.
const staleSweep = 2 * 24 * 60 // minutes

// words shows a range by its first and last offset.
func words(r Range) string {
	if r.To == r.From+1 {
		return strconv.FormatInt(r.From, 10)
	}
	return fmt.Sprintf("%d to %d", r.From, r.To-1)
}

// tell adds the findings that follow from the numbers.
func (a *auditor) tell() {
	r := a.report
	r.judge()
	t := &r.Totals
	some := func(n int64, format string) {
		if n > 0 {
			a.finding(format, humanize.Comma(n))
		}
	}
	some(t.Parked, "%s records cannot be published for what they are: look for them on the dead-letter topic")
	some(t.Expired, "%s offsets were deleted in Kafka before it could be asked again")
	some(t.LandedBefore, "%s records had landed before the times that were read: a producer's clock is ahead")
	some(t.LandedLate, "%s records were still on their way and landed while the audit waited")
	some(t.Unread, "%s offsets count as missing without having been read again, since too many records of their ranges were there")
	some(t.ConflictingIdentities, "%s offsets have two records: a broker was elected that lacked some (unclean election)")
	silent := int64(0)
	for _, p := range r.Partitions {
		silent += p.silent
	}
	some(silent, "%s offsets are not confirmed since Kafka answered with nothing where its log goes on: compaction may have taken them, or the broker could not look; ask again later")
	a.tellOthers()
	switch l := &r.Log; {
	case !l.Known:
	case l.Watermark == nil:
		a.finding("the merge has never run: schedule it (mskbridge sql --object schedule)")
	default:
		if l.MinutesSinceSweep > staleSweep {
			a.finding("the last sweep of the log ended %s ago: look whether the merge is scheduled and succeeds", minutes(l.MinutesSinceSweep))
		}
		some(l.Unmerged, "%s records landed before the watermark and are not in the log yet (1,000 stands for more): the next sweep takes them")
		some(l.Repeated, "%s records are in the log more than once (1,000 stands for more): somebody else writes to it")
	}
}

// tellOthers sums up what landed of other incarnations, which may have as many
// partitions as they like.
func (a *auditor) tellOthers() {
	type incarnation struct{ cluster, topicID string }
	var order []incarnation
	landed, partitions := make(map[incarnation]int64), make(map[incarnation]int)
	for _, o := range a.report.Others {
		i := incarnation{o.Cluster, o.TopicID}
		if partitions[i] == 0 {
			order = append(order, i)
		}
		landed[i], partitions[i] = landed[i]+o.Landed, partitions[i]+1
	}
	for _, i := range order {
		which := "another incarnation of the topic"
		if i.topicID == a.report.TopicID && i.cluster == a.Cluster {
			which = "partitions without a commit"
		}
		a.finding("%s records of %s landed: cluster %s, topic id %s, %d partitions", humanize.Comma(landed[i]), which, i.cluster, i.topicID, partitions[i])
	}
}

func minutes(n int64) string { return (time.Duration(n) * time.Minute).String() }

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// Table writes the reports for people.
func (r *Reports) Table(w io.Writer) error {
	p := &printer{w: w}
	for i, route := range r.Routes {
		if i > 0 {
			p.f("\n")
		}
		route.table(p, r.DryRun)
	}
	if p.err != nil {
		return fmt.Errorf("writing the report: %w", p.err)
	}
	return nil
}

func (r *Report) table(p *printer, dry bool) {
	p.f("route %s, topic id %s, records since %s\n", r.Route, cmp.Or(r.TopicID, "not known"), r.Since.Format(time.RFC3339))
	if dry && len(r.Problems) == 0 {
		p.f("the queries would read %s at most\n", humanize.Bytes(uint64(max(r.EstimatedBytes, 0))))
	} else if !dry {
		r.numbers(p)
		r.lists(p)
		if l := r.Log; l.Watermark != nil {
			p.f("log: merged up to %s, %s ago; swept %s ago\n", l.Watermark.Format(time.RFC3339), minutes(l.MinutesSinceMerge), minutes(l.MinutesSinceSweep))
		}
	}
	for _, f := range r.Findings {
		p.f("note: %s\n", plain(f))
	}
	for _, f := range r.Problems {
		p.f("could not find out: %s\n", plain(f))
	}
	if dry {
		return
	}
	t := &r.Totals
	p.f("%s: %s of %s expected offsets landed, %s missing, %s not confirmed\n", r.Result,
		humanize.Comma(t.Landed), humanize.Comma(t.Expected), humanize.Comma(t.Missing), humanize.Comma(t.Unconfirmed))
	if len(r.Mend) > 0 {
		p.f("publish again what is missing:\n")
	}
	for _, line := range r.Mend {
		p.f("  %s\n", line)
	}
}

// numbers is the table of partitions.
func (r *Report) numbers(p *printer) {
	if len(r.Partitions) == 0 {
		return
	}
	tw := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "partition\tfrom\tto\texpected\tlanded\tmissing\tunconfirmed\tholes\texpired\tparked\tskipped\tunpromised\tcopies by publisher\tby subscription\tconflicts\t")
	row := func(name, from, to string, c *Counts) {
		fmt.Fprintf(tw, "%s\t%s\t%s\t", name, from, to)
		for _, n := range []int64{
			c.Expected, c.Landed, c.Missing, c.Unconfirmed, c.Holes, c.Expired, c.Parked, c.Skipped, c.Unpromised,
			c.DuplicatesByPublisher, c.DuplicatesBySubscription, c.ConflictingIdentities,
		} {
			fmt.Fprintf(tw, "%d\t", n)
		}
		fmt.Fprintln(tw)
	}
	for _, q := range r.Partitions {
		row(strconv.Itoa(int(q.Partition)), strconv.FormatInt(q.From, 10), strconv.FormatInt(q.To, 10), &q.Counts)
	}
	row("all", "", "", &r.Totals)
	if err := tw.Flush(); p.err == nil {
		p.err = err
	}
}

// lists names the ranges, a line for each kind of a partition.
func (r *Report) lists(p *printer) {
	for _, q := range r.Partitions {
		for _, list := range []struct {
			what string
			all  []Range
		}{
			{"missing", q.MissingRanges},
			{"unconfirmed", q.UnconfirmedRanges},
			{"expired", q.ExpiredRanges},
			{"parked", q.ParkedRanges},
			{"skipped", q.SkippedRanges},
			{"holes that no record declared", q.HoleRanges},
		} {
			if len(list.all) == 0 {
				continue
			}
			parts := make([]string, len(list.all))
			for i, s := range list.all {
				parts[i] = words(s)
			}
			p.f("partition %d, %s: %s\n", q.Partition, list.what, strings.Join(parts, ", "))
		}
		if q.Cut {
			p.f("partition %d has more ranges than can be listed: the numbers above are exact\n", q.Partition)
		}
	}
}

// mostPlain bounds what servers and rows say, in bytes.
const mostPlain = 10 << 10

// plain is text of a server, or of a row that anybody may have published, for a
// terminal, which it must not steer or fill.
func plain(s string) string {
	if len(s) > mostPlain {
		s = s[:mostPlain] + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
