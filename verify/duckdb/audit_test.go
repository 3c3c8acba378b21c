package duckdb

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// extent is one partition of the current incarnation as Kafka has it.
type extent struct {
	topicID   string
	partition int32
	from, to  int64 // to is not included
}

func (w *world) extents() []extent {
	var out []extent
	for p := range int32(partitions) {
		s := extent{partition: p, from: math.MaxInt64}
		for _, r := range w.records {
			if r.id.Partition == p && w.incarnation(r) == 1 {
				s.topicID = keyParts(r.id)[3]
				s.from, s.to = min(s.from, r.id.Offset-r.kafka.Gap), max(s.to, r.id.Offset+1)
			}
		}
		out = append(out, s)
	}
	return out
}

// bounds are the parameters of the audits. @expected is a subquery with the
// columns that an array of struct would give.
func bounds(extents []extent) map[string]string {
	var values []string
	for _, s := range extents {
		values = append(values, fmt.Sprintf("('msk', '%s', %d, %d, %d)", s.topicID, s.partition, s.from, s.to))
	}
	return map[string]string{
		"@from_time": stamp(genesis.Add(-time.Hour)), "@to_time": stamp(genesis.Add(60 * 24 * time.Hour)),
		"@from_date": "DATE '1970-01-01'", "@to_date": "DATE '2100-01-01'", "@@now": stamp(genesis.Add(60 * 24 * time.Hour)),
		"@expected": "(SELECT * FROM (VALUES " + strings.Join(values, ", ") + ") AS v(kafka_cluster, kafka_topic_id, kafka_partition, from_offset, to_offset))",
	}
}

// line is a row of the partition audit.
type line struct {
	expected                           bool
	landed, holes, missing, deliveries int
	byPublisher, bySubscription        int
	conflicting                        int
	ranges                             string
}

func (s *simulation) audit(ctx context.Context, t *testing.T) map[string]line {
	t.Helper()
	rows, err := s.warehouse.Audit(ctx, "audit_partitions", bounds(s.extents()))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := make(map[string]line)
	for rows.Next() {
		var l line
		var id string
		var partition int
		var skip any
		var ranges any
		if err := rows.Scan(&skip, &id, &partition, &l.expected, &skip, &skip, &l.landed, &skip, &skip, &l.holes, &l.missing, &skip,
			&ranges, &l.deliveries, &l.byPublisher, &l.bySubscription, &skip, &l.conflicting, &skip); err != nil {
			t.Fatal(err)
		}
		if ranges != nil {
			for _, r := range ranges.([]any) {
				m := r.(map[string]any)
				l.ranges += fmt.Sprintf("[%v, %v) ", m["from_offset"], m["to_offset"])
			}
		}
		out[fmt.Sprintf("%s/%d", id, partition)] = l
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAuditFindsWhatIsMissing: with nothing lost nothing is missing, though
// Kafka's own offsets have holes; with records taken out, exactly those are
// named, with the holes that only they had declared.
func TestAuditFindsWhatIsMissing(t *testing.T) {
	ctx := t.Context()
	s := start(ctx, t, newWorld(t, 31, warehouse.Raw), nil)
	s.land(ctx, t, genesis.AddDate(0, 0, 30))
	holes, others, conflicts := 0, 0, 0
	for where, l := range s.audit(ctx, t) {
		if l.missing != 0 || l.deliveries != l.landed+l.byPublisher+l.bySubscription {
			t.Errorf("%s: %+v", where, l)
		}
		holes += l.holes
		if !l.expected {
			others++
		}
		conflicts += l.conflicting
	}
	if holes == 0 || others != partitions || conflicts == 0 {
		t.Errorf("%d holes, %d partitions of the older incarnation, %d offsets with two records: the world lost its teeth", holes, others, conflicts)
	}

	lost := s.lose(ctx, t, 100)
	found := s.audit(ctx, t)
	for where, want := range lost {
		if got := found[where].ranges; got != want {
			t.Errorf("%s: missing %s\nwant %s", where, got, want)
		}
	}
}

// lose takes n records of the current incarnation out of raw and returns what
// an audit must say, by partition.
func (s *simulation) lose(ctx context.Context, t *testing.T, n int) map[string]string {
	t.Helper()
	byOffset := make(map[string]map[int64][]record)
	for _, r := range s.records {
		if s.incarnation(r) == 1 {
			where := fmt.Sprintf("%s/%d", keyParts(r.id)[3], r.id.Partition)
			if byOffset[where] == nil {
				byOffset[where] = make(map[int64][]record)
			}
			byOffset[where][r.id.Offset] = append(byOffset[where][r.id.Offset], r)
		}
	}
	gone := make(map[string]map[int64]bool)
	for range n {
		where := fmt.Sprintf("%s/%d", s.extents()[s.rng.IntN(partitions)].topicID, s.rng.IntN(partitions))
		offsets := make([]int64, 0, len(byOffset[where]))
		for o := range byOffset[where] {
			offsets = append(offsets, o)
		}
		slices.Sort(offsets)
		o := offsets[s.rng.IntN(len(offsets))]
		if gone[where] == nil {
			gone[where] = make(map[int64]bool)
		}
		gone[where][o] = true
		for _, r := range byOffset[where][o] {
			if _, err := s.warehouse.DB.ExecContext(ctx, "DELETE FROM "+s.warehouse.Table("raw")+" WHERE json_extract_string(attributes, '$.idempotency_key') = ?", r.id.String()); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := make(map[string]string)
	for _, sp := range s.extents() {
		where := fmt.Sprintf("%s/%d", sp.topicID, sp.partition)
		out[where] = missing(sp, byOffset[where], gone[where])
	}
	return out
}

// missing walks a partition as an auditor with a pencil would: from each record
// that is there to the next, less the holes that the next one declares.
func missing(e extent, records map[int64][]record, gone map[int64]bool) string {
	out, due := "", e.from
	for o := e.from; o <= e.to; o++ {
		if o < e.to && (len(records[o]) == 0 || gone[o]) {
			continue
		}
		holes := int64(0)
		for _, r := range records[o] {
			holes = max(holes, r.kafka.Gap)
		}
		if o-holes > due {
			out += fmt.Sprintf("[%d, %d) ", due, o-holes)
		}
		due = o + 1
	}
	return out
}

// TestAuditsOfTheLog: what is not merged, what is there twice, which keys moved
// between partitions, and how old all of it is.
func TestAuditsOfTheLog(t *testing.T) {
	ctx := t.Context()
	s := start(ctx, t, newWorld(t, 32, warehouse.Raw), nil)
	now := genesis.AddDate(0, 0, 12)
	s.land(ctx, t, now)
	s.merge(ctx, t, now)
	rows := func(name string) int {
		t.Helper()
		r, err := s.warehouse.Audit(ctx, name, bounds(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		n := 0
		for r.Next() {
			n++
		}
		return n
	}
	for _, name := range []string{"audit_unmerged", "audit_repeated", "audit_keys"} {
		if n := rows(name); n != 0 && (name != "audit_keys" || n != 2) { // the empty key is everywhere, in both incarnations
			t.Errorf("%s: %d rows of a log that is whole", name, n)
		}
	}
	log := s.warehouse.Table("log")
	key := hex.EncodeToString([]byte("key-4"))
	for _, change := range []string{
		"DELETE FROM " + log + " WHERE kafka_offset = 7",
		"INSERT INTO " + log + " SELECT * FROM " + log + " WHERE kafka_offset IN (8, 9)",
		"UPDATE " + log + " SET kafka_partition = 3 WHERE kafka_offset > 20 AND kafka_key = unhex('" + key + "')",
	} {
		if _, err := s.warehouse.DB.ExecContext(ctx, change); err != nil {
			t.Fatal(err)
		}
	}
	removed, doubled := 0, 0
	for _, r := range s.records {
		switch r.id.Offset {
		case 7:
			removed++
		case 8, 9:
			doubled++
		}
	}
	if n := rows("audit_unmerged"); n != removed {
		t.Errorf("%d records unmerged, want %d", n, removed)
	}
	if n := rows("audit_repeated"); n != doubled {
		t.Errorf("%d records repeated, want %d", n, doubled)
	}
	if n := rows("audit_keys"); n < 3 {
		t.Errorf("%d keys in several partitions: the moved one is not seen", n)
	}

	fresh, err := s.warehouse.Audit(ctx, "audit_freshness", map[string]string{"@@now": stamp(now.Add(90 * time.Minute))})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	var watermark, swept time.Time
	var runs, sinceMerge, sinceSweep int
	if !fresh.Next() {
		t.Fatal("no state")
	}
	if err := fresh.Scan(&watermark, &swept, &runs, &sinceMerge, &sinceSweep); err != nil {
		t.Fatal(err)
	}
	if !watermark.Equal(now) || runs != 1 || sinceMerge != 90 || sinceSweep != 90 {
		t.Errorf("watermark %v, %d runs, %d and %d minutes", watermark, runs, sinceMerge, sinceSweep)
	}
}

// TestEachStatementIsExecuted fails for a statement that no test of this module
// runs, in any format.
func TestEachStatementIsExecuted(t *testing.T) {
	ctx := t.Context()
	for _, format := range []warehouse.Format{warehouse.Raw, warehouse.EnvelopeBytes, warehouse.EnvelopeJSON} {
		s := start(ctx, t, newWorld(t, 33, format), nil)
		now := genesis.AddDate(0, 0, 12)
		s.land(ctx, t, now)
		s.merge(ctx, t, now)
		statements, err := warehouse.Render(s.spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range statements {
			if st.Object == warehouse.ObjectAudit {
				rows, err := s.warehouse.Audit(ctx, st.Name, bounds(s.extents()))
				if err != nil {
					t.Fatalf("%s: %v", st.Name, err)
				}
				rows.Close()
			}
			if !s.warehouse.executed[st.Name] {
				t.Errorf("%s: %s is never executed", format, st.Name)
			}
		}
		t.Logf("%s: %d statements executed", format, len(statements))
	}
}
