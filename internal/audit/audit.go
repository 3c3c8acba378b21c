package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// Limits of time and size.
const (
	estimateLimit = 30 * time.Second
	queryLimit    = 10 * time.Minute
	rereadLimit   = 5 * time.Minute // all reading again of one route
	// margin is what clocks of producers, brokers and Pub/Sub may differ, and how
	// long ago something may have been published that is still on its way.
	margin = time.Hour
	// older is how much older than Since a record's day may be that landed since.
	older = 7 * 24 * time.Hour
	// looks is how often raw is asked again while the audit settles.
	looks = 2
)

// Options say what to audit. Every field but Begin, Latest, Skip and
// Settle is required.
type Options struct {
	Warehouse Warehouse
	Kafka     Kafka
	Spec      warehouse.Spec // Spec.Topic is the route
	Cluster   string         // alias in identities
	// Since is where the audit begins, in record timestamps as Kafka finds them.
	Since time.Time
	// Begin and Latest are the route's start: records before Begin, or before the
	// first that landed, were never promised.
	Begin  time.Time
	Latest bool
	Skip   map[int32][]Range // by partition
	// Settle is how long to wait for rows that are on their way; 0 does not.
	Settle time.Duration
}

// auditor is the audit of one route that has asked Kafka and knows what it costs,
// but has not read yet. One goroutine uses it.
type auditor struct {
	Options
	report *Report

	progress func(string)
	topic    *Topic
	asked    time.Time
	sql      map[string]string // by name of the statement
	limit    int64             // of bytes billed
	failed   bool              // Kafka or BigQuery did not answer: nothing to compare
	// oldest is that of suspects and before, by whose day the log is asked.
	oldest time.Time
	eldest time.Time // of suspects alone; zero when none has a time
	// doubt is set when the log or raw could not be asked a second time: then
	// nothing may be called missing.
	doubt bool
}

// plan asks Kafka where the topic stands, and BigQuery what the queries would
// read. What it could not find out is a problem of the report. It fails only
// when options do not fit together.
func plan(ctx context.Context, o Options, progress func(string)) (*auditor, error) {
	statements, err := warehouse.Render(o.Spec, warehouse.ObjectAudit)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	a := &auditor{Options: o, progress: progress, asked: now, oldest: o.Since.Add(-older), sql: make(map[string]string), report: &Report{
		Route: o.Spec.Topic, Since: o.Since.UTC(), At: now.UTC(),
		Partitions: []*Partition{}, Others: []Other{}, Findings: []string{}, Problems: []string{}, Mend: []string{},
	}}
	for _, s := range statements {
		a.sql[s.Name] = s.SQL
	}
	since := o.Since
	if o.Begin.After(since) {
		since = o.Begin
	}
	a.topic, err = o.Kafka.Extents(ctx, o.Spec.Topic, since)
	if err == nil && slices.ContainsFunc(a.topic.Partitions, func(e Extent) bool { return e.Committed > e.End }) {
		a.topic, err = o.Kafka.Extents(ctx, o.Spec.Topic, since) // the end may have been asked for before the commit
	}
	if err != nil {
		a.failed = true
		a.problem(err)
		return a, nil
	}
	a.report.TopicID = a.topic.ID
	for _, e := range a.topic.Partitions {
		a.expect(e)
	}
	a.began()
	a.estimate(ctx)
	return a, nil
}

// began doubts an audit of which nothing is expected, though there are records.
func (a *auditor) began() {
	written := false
	for _, e := range a.topic.Partitions {
		if e.Err != nil || e.Committed >= 0 {
			return
		}
		written = written || e.End > e.Start
	}
	if written {
		a.problem(errors.New("no partition has a commit, though the log has records: has the bridge run, and is BRIDGE_GROUP that of the bridge?"))
	}
}

// expect notes what must have landed of a partition.
func (a *auditor) expect(e Extent) {
	p := &Partition{Partition: e.Partition}
	for _, list := range p.lists() {
		*list = []Range{} // null would be a surprise in JSON
	}
	a.report.Partitions = append(a.report.Partitions, p)
	switch {
	case e.Err != nil:
		a.problem(fmt.Errorf("partition %d: %w", e.Partition, e.Err))
		p.Note = "not known"
	case e.Start < 0 || e.End < 0 || e.Since < 0:
		a.problem(fmt.Errorf("partition %d: Kafka did not say where its log begins and ends: try again", e.Partition))
		p.Note = "not known"
	case e.Committed < 0:
		p.Note = "no commit"
		a.finding("partition %d has no commit: nothing of it is expected yet", e.Partition)
	case e.Committed > e.End:
		a.problem(fmt.Errorf("partition %d: committed is offset %d, but the log ends at %d: it was cut, or the commit is of a topic that is no more", e.Partition, e.Committed, e.End))
		p.Note = "committed behind the end"
	default:
		if e.Start > e.Committed {
			a.finding("partition %d: offsets %s were deleted in Kafka before they were committed", e.Partition, words(Range{e.Committed, e.Start}))
		}
		switch {
		case e.Since > e.Committed:
			a.finding("partition %d: what is committed ends before --since: nothing of it is expected; choose an earlier one", e.Partition)
		case e.Since == e.Start && e.Start > 0:
			a.finding("partition %d: its log begins behind --since: what Kafka has deleted is not looked at", e.Partition)
		}
		p.To = e.Committed
		p.From = min(max(e.Start, e.Since), p.To)
		p.Expected = p.To - p.From
	}
}

// estimate asks for what each query would read, as often as it may run.
func (a *auditor) estimate(ctx context.Context) {
	a.progress("asking BigQuery what the queries would read")
	for _, q := range a.queries() {
		limited, cancel := context.WithTimeout(ctx, estimateLimit)
		n, err := a.Warehouse.Estimate(limited, q)
		cancel()
		if err != nil {
			a.failed = true
			a.problem(err)
			return
		}
		if q.Name == auditLanded {
			n *= int64(a.times())
		}
		a.report.EstimatedBytes += n
	}
}

// times is how often raw is asked again at most.
func (a *auditor) times() int {
	if a.Settle <= 0 {
		return 0
	}
	return looks
}

// run reads, at most limit bytes in all, and completes the report.
func (a *auditor) run(ctx context.Context, limit int64) {
	defer a.finish()
	if a.failed {
		return
	}
	a.limit = limit
	a.progress("reading what landed")
	if err := a.readPartitions(ctx); err != nil {
		a.failed = true
		a.problem(err)
		return
	}
	a.explain()
	a.sameCluster()
	a.askLog(ctx)
	a.askKafka(ctx)
	a.askOlder(ctx)
	a.settle(ctx)
	a.askRest(ctx)
	if ctx.Err() != nil {
		a.doubt = true
		a.problem(fmt.Errorf("stopped before all was asked again: %w", ctx.Err()))
		return
	}
	a.readLog(ctx)
}

// refuse completes the report of an audit that does not run.
func (a *auditor) refuse(why error) {
	a.failed = true
	a.problem(why)
	a.finish()
}

// finish names what is left over.
func (a *auditor) finish() {
	a.doubtOld()
	for _, p := range a.report.Partitions {
		switch {
		case a.failed:
			p.Counts = Counts{Expected: p.Expected}
			p.unconfirm(union(Range{p.From, p.To}))
		case a.doubt:
			p.unconfirm(p.suspects)
		default:
			p.unread = p.unread.and(p.suspects)
			p.Missing, p.Unread, p.MissingRanges = p.suspects.count(), p.unread.count(), p.list(p.suspects)
			a.mend(p)
		}
		p.suspects = nil
	}
	a.tell()
	a.report.judge()
}

// doubtOld doubts what is missing when some of it is dated before the times that
// were read, where one record dated ahead let Kafka find the time of the audit,
// and no merge has looked since: only the log knows what landed before.
func (a *auditor) doubtOld() {
	w := a.report.Log.Watermark
	from := a.Since.Add(-margin)
	if a.failed || a.doubt || a.eldest.IsZero() || !a.eldest.Before(from) || a.count(suspects) == 0 || w != nil && w.After(from) {
		return
	}
	a.doubt = true
	a.problem(fmt.Errorf("records since %s have not landed in the times that were read, and the log, which knows what landed before, has not been merged up to them: run the merge, or choose an earlier --since", a.eldest.UTC().Format(time.RFC3339)))
}

// mendApart is how many offsets between two missing ranges one command line
// publishes again as well, rather than being two. Copies are harmless.
const mendApart = 100

func (a *auditor) mend(p *Partition) {
	for _, r := range joined(p.suspects, mendApart) {
		a.report.Mend = append(a.report.Mend, fmt.Sprintf("mskbridge replay --route %s --partition %d --from %d --to %d", a.Spec.Topic, p.Partition, r.From, r.To))
	}
}

func (a *auditor) problem(err error) { a.report.Problems = append(a.report.Problems, err.Error()) }

func (a *auditor) finding(format string, args ...any) {
	a.report.Findings = append(a.report.Findings, fmt.Sprintf(format, args...))
}

// unconfirm moves offsets to those that could not be asked about.
func (p *Partition) unconfirm(s ranges) {
	p.Unconfirmed += s.count()
	p.UnconfirmedRanges = p.list(append(p.UnconfirmedRanges, s...))
}

func (p *Partition) lists() []*[]Range {
	return []*[]Range{&p.MissingRanges, &p.UnconfirmedRanges, &p.HoleRanges, &p.ExpiredRanges, &p.ParkedRanges, &p.SkippedRanges}
}

// list makes a list of ranges, cut where it is too long.
func (p *Partition) list(s []Range) []Range {
	out := append(ranges{}, union(s...)...)
	if len(out) > mostListed {
		p.Cut = true
		out = out[:mostListed]
	}
	return out
}
