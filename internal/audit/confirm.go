package audit

import (
	"context"
	"fmt"
	"math"
	"time"
)

const (
	// mostAsked bounds the ranges that are asked about again: they are parameters
	// of queries.
	mostAsked = 10_000
	// nearby candidates are read again together, as long as that reads at most
	// together offsets: each reading costs a connection.
	nearby   = 100
	together = 10_000
)

// explain takes out what was never promised, and what there is too much of.
func (a *auditor) explain() {
	left := mostAsked
	for _, p := range a.report.Partitions {
		skipped := p.candidates.and(union(a.Skip[p.Partition]...))
		p.Skipped, p.SkippedRanges = skipped.count(), p.list(skipped)
		p.candidates = p.candidates.without(skipped)
		if a.Latest {
			before := p.candidates.and(union(Range{p.From, p.first}))
			p.candidates = p.candidates.without(before)
			if p.Unpromised = before.count(); p.Unpromised > 0 {
				a.problem(fmt.Errorf("partition %d: %d offsets before the first that landed are lost, unless the route, which starts at latest, began behind them: choose a --since after that", p.Partition, p.Unpromised))
			}
		}
		if len(p.candidates) > left {
			p.unconfirm(p.candidates[left:])
			p.Cut = true
			p.candidates = p.candidates[:left]
		}
		left -= len(p.candidates)
	}
}

// sameCluster doubts what is missing when records of the same topic landed under
// another alias: published again under this one, they would be other records.
func (a *auditor) sameCluster() {
	for _, o := range a.report.Others {
		if o.TopicID == a.topic.ID && o.TopicID != "-" && o.Cluster != a.Cluster && a.count(candidates) > 0 {
			a.doubt = true
			a.problem(fmt.Errorf("records of this topic landed under the cluster alias %s, but BRIDGE_CLUSTER is %s: set it as the bridge has it, or choose a --since after it changed", o.Cluster, a.Cluster))
			return
		}
	}
}

// count returns how many candidates or suspects there are.
func (a *auditor) count(of func(*Partition) ranges) int64 {
	n := int64(0)
	for _, p := range a.report.Partitions {
		n += of(p).count()
	}
	return n
}

func candidates(p *Partition) ranges { return p.candidates }
func suspects(p *Partition) ranges   { return p.suspects }

// askLog takes out what landed before the times that were read: a producer's
// clock was ahead.
func (a *auditor) askLog(ctx context.Context) {
	if a.count(candidates) == 0 {
		return
	}
	a.progress("asking the log for what is not in raw")
	found, err := a.known(ctx, auditFound, candidates)
	if err != nil {
		a.doubt = true
		a.problem(err)
		return
	}
	for _, p := range a.report.Partitions {
		p.candidates = p.landedBefore(p.candidates, found)
	}
}

// askOlder asks the log again when suspects are older than the days it was asked
// for: one record that is dated ahead lets Kafka find the time of the audit long
// before it was. That is not in the estimate, but the limit holds.
func (a *auditor) askOlder(ctx context.Context) {
	before := a.Since.Add(-older)
	if a.count(suspects) == 0 || !a.oldest.Before(before) || a.doubt {
		return
	}
	a.progress("asking the log for days before " + before.UTC().Format(time.DateOnly))
	found, err := a.known(ctx, auditFound, suspects)
	if err != nil {
		a.doubt = true
		a.problem(err)
		return
	}
	for _, p := range a.report.Partitions {
		p.suspects = p.landedBefore(p.suspects, found)
	}
}

// landedBefore returns s without what the log knows.
func (p *Partition) landedBefore(s ranges, found map[int64]ranges) ranges {
	there := s.and(found[int64(p.Partition)])
	p.LandedBefore += there.count()
	p.Landed += there.count()
	return s.without(there)
}

// askKafka takes out what Kafka itself does not have, or cannot be published.
func (a *auditor) askKafka(ctx context.Context) {
	n := a.count(candidates)
	if n == 0 {
		return
	}
	a.progress(fmt.Sprintf("asking Kafka again for %d offsets that have not landed", n))
	limited, cancel := context.WithTimeout(ctx, rereadLimit)
	defer cancel()
	var failed error
	for _, p := range a.report.Partitions {
		for _, span := range spans(p.candidates) {
			asked := p.candidates.and(union(span))
			if failed != nil {
				p.unconfirm(asked)
				continue
			}
			r, err := a.Kafka.Reread(limited, a.Spec.Topic, p.Partition, span)
			if err != nil {
				failed = fmt.Errorf("reading partition %d again from offset %d: %w", p.Partition, span.From, err)
				p.unconfirm(asked)
				continue
			}
			p.reread(asked, r)
			if a.eldest.IsZero() || !r.Oldest.IsZero() && r.Oldest.Before(a.eldest) {
				a.eldest = r.Oldest
			}
			if !r.Oldest.IsZero() && r.Oldest.Before(a.oldest) {
				a.oldest = r.Oldest
			}
		}
		p.candidates = nil
	}
	if failed != nil {
		a.problem(failed)
	}
	if a.count(suspects) > 0 {
		a.sameTopic(ctx)
	}
}

// askRest asks Kafka for what was not read one by one, where much of it turned
// out to have landed: the rest may be holes between records.
func (a *auditor) askRest(ctx context.Context) {
	for _, p := range a.report.Partitions {
		rest := p.unread.and(p.suspects)
		if p.unread = rest; !a.doubt && p.LandedBefore+p.LandedLate > 0 {
			p.candidates, p.suspects, p.unread = rest, p.suspects.without(rest), nil
		}
	}
	a.askKafka(ctx)
}

// spans joins candidates that can be read together.
func spans(s ranges) []Range {
	var out []Range
	for _, r := range s {
		last := len(out) - 1
		if last >= 0 && r.From-out[last].To <= nearby && r.To-out[last].From <= together {
			out[last].To = r.To
		} else {
			out = append(out, r)
		}
	}
	return out
}

// reread sorts asked offsets by what Kafka has of them. Where reading ended
// early, one that has not landed stands for those behind it.
func (p *Partition) reread(asked ranges, r *Reread) {
	expired := asked.and(union(Range{0, r.Start}))
	silent := asked.and(union(r.Silent))
	p.silent += silent.count()
	p.unconfirm(silent)
	asked = asked.without(expired).without(silent)
	rest := asked.and(union(Range{r.Next, math.MaxInt64}))
	asked = asked.without(rest)
	records := asked.and(union(r.Records...))
	parked := asked.and(union(r.Parked...))
	holes := asked.without(records).without(parked)

	p.Expired += expired.count()
	p.ExpiredRanges = p.list(append(p.ExpiredRanges, expired...))
	p.Parked += parked.count()
	p.ParkedRanges = p.list(append(p.ParkedRanges, parked...))
	p.Holes += holes.count()
	p.HoleRanges = p.list(append(p.HoleRanges, holes...))
	if len(records) > 0 { // not those that landed, between candidates
		p.suspects = union(append(p.suspects, rest...)...)
		p.unread = union(append(p.unread, rest.without(union(r.Records...))...)...)
	} else {
		p.unconfirm(rest)
	}
	p.suspects = union(append(p.suspects, records...)...)
}

// sameTopic doubts everything when the topic was created again meanwhile: what
// was read is of another incarnation than what was expected.
func (a *auditor) sameTopic(ctx context.Context) {
	now, err := a.Kafka.Extents(ctx, a.Spec.Topic, a.Since)
	switch {
	case err != nil:
		a.doubt = true
		a.problem(err)
	case now.ID != a.topic.ID:
		a.doubt = true
		a.problem(fmt.Errorf("topic %s was deleted and created again during the audit: run it again", a.Spec.Topic))
	}
}

// settle waits for rows that are on their way from Pub/Sub to BigQuery.
func (a *auditor) settle(ctx context.Context) {
	waited := time.Duration(0)
	for i := range a.times() {
		n := a.count(suspects)
		if n == 0 || a.doubt {
			return
		}
		// Mostly seconds are enough: a quarter, then all.
		until := a.Settle * time.Duration([looks]int{1, 4}[i]) / 4
		a.progress(fmt.Sprintf("%d records are not in raw: waiting %s for rows on their way", n, (until - waited).Round(time.Second)))
		timer := time.NewTimer(until - waited)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		waited = until
		found, err := a.known(ctx, auditLanded, suspects)
		if err != nil {
			a.doubt = true
			a.problem(err)
			return
		}
		for _, p := range a.report.Partitions {
			there := p.suspects.and(found[int64(p.Partition)])
			p.suspects = p.suspects.without(there)
			p.LandedLate += there.count()
			p.Landed += there.count()
		}
	}
}
