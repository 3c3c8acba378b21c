package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// Names of the statements.
const (
	auditPartitions = "audit_partitions"
	auditFound      = "audit_found"
	auditLanded     = "audit_landed"
	auditUnmerged   = "audit_unmerged"
	auditRepeated   = "audit_repeated"
	auditFreshness  = "audit_freshness"
)

// queries returns each query that an audit may run, with bounds that read at
// least as much.
func (a *auditor) queries() []warehouse.Query {
	all := a.extents(func(p *Partition) ranges { return union(Range{p.From, p.To}) })
	names := []string{auditPartitions, auditFound, auditUnmerged, auditRepeated, auditFreshness}
	if a.times() > 0 {
		names = append(names, auditLanded)
	}
	var out []warehouse.Query
	for _, name := range names {
		out = append(out, a.query(name, all, a.asked.Add(margin)))
	}
	return out
}

// query returns a statement with its parameters. until ends publish times.
func (a *auditor) query(name string, extents []warehouse.Extent, until time.Time) warehouse.Query {
	from, to := int64(0), int64(0)
	for i, e := range extents {
		if i == 0 || e.From < from {
			from = e.From
		}
		to = max(to, e.To)
	}
	fromTime := a.Since.Add(-margin)
	if lately := a.asked.Add(-margin); name == auditLanded && lately.After(fromTime) {
		fromTime = lately // what is still on its way was published lately
	}
	day := func(t time.Time) warehouse.Date { return warehouse.Date(t.UTC().Format(time.DateOnly)) }
	fromDate := day(a.Since.Add(-24 * time.Hour))
	if name == auditFound {
		fromDate = day(a.oldest)
	}
	values := map[string]any{
		"from_time": fromTime.UTC(), "to_time": until.UTC(),
		// Producers' clocks may be ahead: days to come cost nothing.
		"from_date": fromDate, "to_date": warehouse.Date("2100-01-01"),
		"expected": extents, "ranges": extents, "from_offset": from, "to_offset": to,
	}
	q := warehouse.Query{Name: name, SQL: a.sql[name], Params: make(map[string]any)}
	for _, p := range parameters()[name] {
		q.Params[p] = values[p]
	}
	return q
}

// parameters are those of each statement.
func parameters() map[string][]string {
	return map[string][]string{
		auditPartitions: {"from_time", "to_time", "expected"},
		auditFound:      {"ranges", "from_offset", "to_offset", "from_date", "to_date"},
		auditLanded:     {"ranges", "from_offset", "to_offset", "from_time", "to_time"},
		auditUnmerged:   {"from_time", "to_time", "from_date", "to_date"},
		auditRepeated:   {"from_date", "to_date"},
	}
}

// extents names offsets of each partition, as SQL wants them.
func (a *auditor) extents(of func(*Partition) ranges) []warehouse.Extent {
	out := []warehouse.Extent{}
	for _, p := range a.report.Partitions {
		for _, r := range of(p) {
			out = append(out, warehouse.Extent{Cluster: a.Cluster, TopicID: a.topic.ID, Partition: int64(p.Partition), From: r.From, To: r.To})
		}
	}
	return out
}

// ask runs a query within what is left of the limit.
func (a *auditor) ask(ctx context.Context, q warehouse.Query) ([]warehouse.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	rows, billed, err := a.Warehouse.Query(ctx, q, max(a.limit-a.report.BilledBytes, 1))
	a.report.BilledBytes += billed
	return rows, err
}

// cells reads the columns of a row and keeps the first error.
type cells struct {
	row warehouse.Row
	err error
}

// cell returns a column, the zero value for NULL.
func cell[T any](c *cells, name string) T {
	var none T
	value, ok := c.row[name]
	if value == nil && ok {
		return none
	}
	if v, ok := value.(T); ok {
		return v
	}
	if c.err == nil {
		c.err = fmt.Errorf("reading column %s: it is %T", name, value)
	}
	return none
}

func (c *cells) count(name string) int64 { return cell[int64](c, name) }

// readPartitions compares raw with what is expected.
func (a *auditor) readPartitions(ctx context.Context) error {
	expected := a.extents(func(p *Partition) ranges { return union(Range{p.From, p.To}) })
	rows, err := a.ask(ctx, a.query(auditPartitions, expected, a.asked.Add(margin)))
	if err != nil {
		return err
	}
	for _, row := range rows {
		c := &cells{row: row}
		partition := c.count(warehouse.ColumnPartition)
		var p *Partition
		for _, known := range a.report.Partitions {
			if cell[bool](c, "is_expected") && int64(known.Partition) == partition {
				p = known
			}
		}
		if p != nil {
			p.fill(c)
		} else {
			a.report.Others = append(a.report.Others, Other{
				cell[string](c, warehouse.ColumnCluster), cell[string](c, warehouse.ColumnTopicID), partition,
				c.count("landed_records"), c.count("first_offset"), c.count("last_offset"),
			})
		}
		if c.err != nil {
			return fmt.Errorf("reading the answer of %s: %w", auditPartitions, c.err)
		}
	}
	for _, p := range a.report.Partitions {
		if known := p.Landed + p.Holes + p.candidates.count() + p.Unconfirmed; known != p.Expected {
			return fmt.Errorf("%s accounts for %d of %d offsets of partition %d: create the views again (mskbridge sql)", auditPartitions, known, p.Expected, p.Partition)
		}
	}
	return nil
}

// fill takes a row of audit_partitions.
func (p *Partition) fill(c *cells) {
	p.Landed, p.Holes = c.count("landed_records"), c.count("holes")
	p.Deliveries = c.count("deliveries")
	p.DuplicatesByPublisher = c.count("duplicates_by_publisher")
	p.DuplicatesBySubscription = c.count("duplicates_by_subscription")
	p.ConflictingIdentities = c.count("conflicting_identities")
	p.LongestDelaySeconds = c.count("longest_delay_seconds")
	if t := cell[time.Time](c, "last_publish_time"); !t.IsZero() {
		p.LastPublishTime = &t
	}
	p.first = p.To
	if p.Landed > 0 {
		p.first = c.count("first_offset")
	}
	p.candidates = rangesOf(c, "first_ranges")
	// The list is cut at a thousand ranges, the count never.
	if more := c.count("missing_offsets") - p.candidates.count(); more > 0 {
		p.Unconfirmed, p.Cut = p.Unconfirmed+more, true
	}
}

// rangesOf reads an array of struct of from_offset and to_offset.
func rangesOf(c *cells, name string) ranges {
	var out []Range
	for _, element := range cell[[]any](c, name) {
		row, _ := element.(warehouse.Row)
		inner := &cells{row: row}
		out = append(out, Range{inner.count("from_offset"), inner.count("to_offset")})
		if inner.err != nil && c.err == nil {
			c.err = inner.err
		}
	}
	return union(out...)
}

// known asks which of the suspected offsets a statement finds, by partition.
func (a *auditor) known(ctx context.Context, name string, of func(*Partition) ranges) (map[int64]ranges, error) {
	rows, err := a.ask(ctx, a.query(name, a.extents(of), time.Now().Add(margin)))
	if err != nil {
		return nil, err
	}
	if len(rows) >= warehouse.MostFound {
		return nil, fmt.Errorf("%s found more ranges than it can name: choose a later --since", name)
	}
	found := make(map[int64][]Range)
	for _, row := range rows {
		c := &cells{row: row}
		partition := c.count(warehouse.ColumnPartition)
		found[partition] = append(found[partition], Range{c.count("from_offset"), c.count("to_offset")})
		if c.err != nil {
			return nil, fmt.Errorf("reading the answer of %s: %w", name, c.err)
		}
	}
	out := make(map[int64]ranges)
	for partition, all := range found {
		out[partition] = union(all...)
	}
	return out, nil
}

// readLog asks the log about itself.
func (a *auditor) readLog(ctx context.Context) {
	log := &a.report.Log
	rows, err := a.ask(ctx, a.query(auditFreshness, nil, a.asked))
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("%s: the table of the merge's state has %d rows: create the log again", auditFreshness, len(rows))
	}
	if err != nil {
		a.problem(err)
		return
	}
	c := &cells{row: rows[0]}
	watermark, swept := cell[time.Time](c, "watermark"), cell[time.Time](c, "swept_at")
	log.Known = true
	if watermark.Unix() > 0 {
		log.Watermark, log.SweptAt = &watermark, &swept
		log.MinutesSinceMerge, log.MinutesSinceSweep = c.count("minutes_since_merge"), c.count("minutes_since_sweep")
	}
	if c.err != nil {
		a.problem(fmt.Errorf("reading the answer of %s: %w", auditFreshness, c.err))
		return
	}
	if watermark.After(a.Since.Add(-margin)) { // what lies behind it, no merge has looked for
		rows, err := a.ask(ctx, a.query(auditUnmerged, nil, watermark))
		if err != nil {
			a.problem(err)
		}
		log.Unmerged = int64(len(rows))
	}
	if rows, err = a.ask(ctx, a.query(auditRepeated, nil, a.asked)); err != nil {
		a.problem(err)
	}
	log.Repeated = int64(len(rows))
}
