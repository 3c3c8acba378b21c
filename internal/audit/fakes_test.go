package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

var errDown = errors.New("it is down")

// landed is one offset in raw.
type landed struct {
	at        time.Time // when the row is there; zero: from the beginning
	published time.Time
	gap       int64
	copies    int // by the publisher, beyond the first
	again     int // deliveries, beyond the first of each publish
	identity2 bool
}

// world is a topic with what both sides have of it. It answers as Kafka and
// BigQuery would, from the same facts and by other means than the SQL.
type world struct {
	tb     testing.TB
	id     string // of the topic, now
	logs   map[int32]*log
	raw    map[int32]map[int64]*landed
	merged map[int32][]int64
	others []warehouse.Row

	unmerged, repeated int
	watermark          time.Time
	sinceSweep         int64

	kafkaErr, rereadErr error
	queryErr            map[string]error // by name of the statement
	estimates           int64            // of each statement
	recreateAtReread    bool
	days                map[int64]time.Time // of offsets that are not of today
	deleted             int64               // below this, all is deleted once Kafka was asked
	forgotten           int64               // partition that the answer about raw leaves out, if any
	bound               int                 // records that one reading looks at
	silent              int64               // offsets at the end of partition 0 for which Kafka has no word
	hurry               bool                // the end is asked for before the commit, once

	asked  []string // statements that ran
	limits []int64
	read   []string // ranges that were read again
}

// log is one partition in Kafka.
type log struct {
	start, end, since, committed int64
	holes, parked                map[int64]bool
	err                          error
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	return &world{
		tb: tb, id: "now", logs: make(map[int32]*log), raw: make(map[int32]map[int64]*landed), merged: make(map[int32][]int64),
		queryErr: make(map[string]error), estimates: 1000, forgotten: -1, bound: 1 << 30, watermark: time.Now().Add(-time.Minute),
	}
}

// partition adds a partition whose records have all landed and are committed.
func (w *world) partition(n int32, records int64) *log {
	l := &log{end: records, committed: records, holes: make(map[int64]bool), parked: make(map[int64]bool)}
	w.logs[n], w.raw[n] = l, make(map[int64]*landed)
	for o := range records {
		w.raw[n][o] = &landed{published: time.Now().Add(-time.Minute)}
	}
	return l
}

// lose takes offsets out of raw.
func (w *world) lose(n int32, offsets ...int64) {
	for _, o := range offsets {
		delete(w.raw[n], o)
	}
}

func (w *world) Extents(context.Context, string, time.Time) (*Topic, error) {
	if w.kafkaErr != nil {
		return nil, w.kafkaErr
	}
	t := &Topic{ID: w.id}
	for n := range int32(len(w.logs)) {
		l := w.logs[n]
		if w.hurry {
			w.hurry = false
			t.Partitions = append(t.Partitions, Extent{Partition: n, Start: l.start, End: l.committed - 1, Committed: l.committed})
			continue
		}
		t.Partitions = append(t.Partitions, Extent{Partition: n, Start: l.start, End: l.end, Since: l.since, Committed: l.committed, Err: l.err})
		l.start = max(l.start, w.deleted)
	}
	return t, nil
}

func (w *world) Reread(_ context.Context, _ string, n int32, r Range) (*Reread, error) {
	w.read = append(w.read, fmt.Sprintf("%d: %s", n, words(r)))
	if w.rereadErr != nil {
		return nil, w.rereadErr
	}
	if w.recreateAtReread {
		w.id = "after"
	}
	l := w.logs[n]
	out := &Reread{Start: l.start, Next: r.To}
	to := r.To
	if n == 0 && w.silent > 0 {
		out.Silent = Range{l.end - w.silent, l.end}
		to = min(to, out.Silent.From)
	}
	for o := max(r.From, l.start); o < to; o++ {
		at := Range{o, o + 1}
		switch {
		case l.holes[o]:
		case l.parked[o]:
			out.Parked = append(out.Parked, at)
		default:
			out.Records = append(out.Records, at)
			if day, old := w.days[o]; old && (out.Oldest.IsZero() || day.Before(out.Oldest)) {
				out.Oldest = day
			}
		}
		if len(out.Records) == w.bound {
			out.Next = o + 1
			break
		}
	}
	return out, nil
}

func (w *world) Estimate(_ context.Context, q warehouse.Query) (int64, error) {
	if q.SQL == "" {
		w.tb.Errorf("%s has no text", q.Name)
	}
	return w.estimates, w.queryErr["estimate "+q.Name]
}

func (w *world) Query(_ context.Context, q warehouse.Query, limit int64) ([]warehouse.Row, int64, error) {
	w.asked, w.limits = append(w.asked, q.Name), append(w.limits, limit)
	if err := w.queryErr[q.Name]; err != nil {
		return nil, 0, err
	}
	switch q.Name {
	case auditPartitions:
		return w.partitions(q), w.estimates, nil
	case auditFound:
		return w.islands(q, func(n int32, o int64) bool { return slices.Contains(w.merged[n], o) && w.within(q, o) }), w.estimates, nil
	case auditLanded:
		return w.islands(q, func(n int32, o int64) bool { return w.sees(q, n, o) }), w.estimates, nil
	case auditUnmerged:
		return make([]warehouse.Row, w.unmerged), w.estimates, nil
	case auditRepeated:
		return make([]warehouse.Row, w.repeated), w.estimates, nil
	case auditFreshness:
		return []warehouse.Row{{
			"watermark": w.watermark, "swept_at": w.watermark, "run_count": int64(1),
			"minutes_since_merge": int64(1), "minutes_since_sweep": w.sinceSweep,
		}}, w.estimates, nil
	}
	w.tb.Errorf("nobody knows %s", q.Name)
	return nil, 0, nil
}

// within reports whether the day of an offset is one that is asked for.
func (w *world) within(q warehouse.Query, o int64) bool {
	day, old := w.days[o]
	return !old || day.Format(time.DateOnly) >= string(q.Params["from_date"].(warehouse.Date))
}

// sees reports whether raw has an offset now, in the times of the query.
func (w *world) sees(q warehouse.Query, n int32, o int64) bool {
	l := w.raw[n][o]
	from, to := q.Params["from_time"].(time.Time), q.Params["to_time"].(time.Time)
	return l != nil && !l.at.After(time.Now()) && !l.published.Before(from) && l.published.Before(to)
}

func (w *world) islands(q warehouse.Query, has func(int32, int64) bool) []warehouse.Row {
	var rows []warehouse.Row
	for _, e := range q.Params["ranges"].([]warehouse.Extent) {
		if e.TopicID != "now" || e.Cluster != "msk" || e.From < q.Params["from_offset"].(int64) || e.To > q.Params["to_offset"].(int64) {
			w.tb.Errorf("asked for %+v in %v", e, q.Params)
		}
		for o := e.From; o < e.To; o++ {
			if has(int32(e.Partition), o) {
				rows = append(rows, warehouse.Row{"kafka_partition": e.Partition, "from_offset": o, "to_offset": o + 1})
			}
		}
	}
	return rows
}

func (w *world) partitions(q warehouse.Query) []warehouse.Row {
	rows := slices.Clone(w.others)
	for _, e := range q.Params["expected"].([]warehouse.Extent) {
		if e.Partition == w.forgotten {
			continue
		}
		n := int32(e.Partition)
		row := warehouse.Row{"kafka_cluster": "msk", "kafka_topic_id": w.id, "kafka_partition": e.Partition, "is_expected": true}
		var count, holes, missing, first, byPublisher, bySubscription, conflicts int64
		var gaps []any
		due, last := e.From, any(nil)
		gap := func(to int64) {
			if to > due {
				if missing += to - due; len(gaps) < 1000 {
					gaps = append(gaps, warehouse.Row{"from_offset": due, "to_offset": to})
				}
			}
		}
		for o := e.From; o < e.To; o++ {
			if !w.sees(q, n, o) {
				continue
			}
			l := w.raw[n][o]
			if count == 0 {
				first = o
			}
			count++
			h := min(l.gap, o-due)
			gap(o - h)
			holes, due, last = holes+h, o+1, l.published
			byPublisher, bySubscription = byPublisher+int64(l.copies), bySubscription+int64(l.again)
			if l.identity2 {
				conflicts++
			}
		}
		gap(e.To)
		maps.Copy(row, warehouse.Row{
			"landed_records": count, "holes": holes, "missing_offsets": missing, "first_ranges": gaps, "first_offset": first, "last_offset": due - 1,
			"deliveries": count + byPublisher + bySubscription, "duplicates_by_publisher": byPublisher, "duplicates_by_subscription": bySubscription,
			"longest_delay_seconds": int64(0), "conflicting_identities": conflicts, "last_publish_time": last,
		})
		rows = append(rows, row)
	}
	return rows
}
