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

// extents are the partitions of the current incarnation as Kafka has them.
func (w *world) extents() []warehouse.Extent {
	var out []warehouse.Extent
	for p := range int32(partitions) {
		e := warehouse.Extent{Cluster: "msk", Partition: int64(p), From: math.MaxInt64}
		for _, r := range w.records {
			if r.id.Partition == p && w.incarnation(r) == 1 {
				e.TopicID = keyParts(r.id)[3]
				e.From, e.To = min(e.From, r.id.Offset-r.kafka.Gap), max(e.To, r.id.Offset+1)
			}
		}
		out = append(out, e)
	}
	return out
}

// everAfter is when everything has landed.
var everAfter = genesis.AddDate(0, 0, 60)

// bounds are parameters of the audits that leave nothing out.
func bounds(extents []warehouse.Extent) map[string]any {
	return map[string]any{
		"from_time": genesis.Add(-time.Hour), "to_time": everAfter,
		"from_date": warehouse.Date("1970-01-02"), "to_date": warehouse.Date("2100-01-01"),
		"expected": extents, "ranges": extents, "from_offset": int64(0), "to_offset": int64(1 << 40),
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
	rows, err := s.warehouse.Audit(ctx, "audit_partitions", bounds(s.extents()), everAfter)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]line)
	for _, r := range rows {
		n := func(name string) int { return int(r[name].(int64)) }
		l := line{
			expected: r["is_expected"].(bool), landed: n("landed_records"), holes: n("holes"), missing: n("missing_offsets"), deliveries: n("deliveries"),
			byPublisher: n("duplicates_by_publisher"), bySubscription: n("duplicates_by_subscription"), conflicting: n("conflicting_identities"),
		}
		if list, ok := r["first_ranges"].([]any); ok {
			l.ranges = texted(list)
		}
		out[fmt.Sprintf("%s/%d", r["kafka_topic_id"], r["kafka_partition"])] = l
	}
	return out
}

// texted shows rows or structs with from_offset and to_offset.
func texted[T any](list []T) string {
	var b strings.Builder
	for _, element := range list {
		r, _ := any(element).(warehouse.Row)
		fmt.Fprintf(&b, "[%v, %v) ", r["from_offset"], r["to_offset"])
	}
	return b.String()
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
		where := fmt.Sprintf("%s/%d", s.extents()[s.rng.IntN(partitions)].TopicID, s.rng.IntN(partitions))
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
		where := fmt.Sprintf("%s/%d", sp.TopicID, sp.Partition)
		out[where] = missing(sp, byOffset[where], gone[where])
	}
	return out
}

// missing walks a partition as an auditor with a pencil would: from each record
// that is there to the next, less the holes that the next one declares.
func missing(e warehouse.Extent, records map[int64][]record, gone map[int64]bool) string {
	out, due := "", e.From
	for o := e.From; o <= e.To; o++ {
		if o < e.To && (len(records[o]) == 0 || gone[o]) {
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
		r, err := s.warehouse.Audit(ctx, name, bounds(nil), now)
		if err != nil {
			t.Fatal(err)
		}
		return len(r)
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

	fresh, err := s.warehouse.Audit(ctx, "audit_freshness", nil, now.Add(90*time.Minute))
	if err != nil || len(fresh) != 1 {
		t.Fatal(fresh, err)
	}
	f := fresh[0]
	if !f["watermark"].(time.Time).Equal(now) || f["run_count"] != int64(1) || f["minutes_since_merge"] != int64(90) || f["minutes_since_sweep"] != int64(90) {
		t.Errorf("%v", f)
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
				if _, err := s.warehouse.Audit(ctx, st.Name, bounds(s.extents()), now); err != nil {
					t.Fatal(err)
				}
			}
			if _, ok := s.warehouse.executed.Load(st.Name); !ok {
				t.Errorf("%s: %s is never executed", format, st.Name)
			}
		}
		t.Logf("%s: %d statements executed", format, len(statements))
	}
}
