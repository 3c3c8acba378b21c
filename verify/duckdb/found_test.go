package duckdb

import (
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// asked are two ranges of each partition, neither of which begins or ends where
// its records do.
func (w *world) asked() []warehouse.Extent {
	var out []warehouse.Extent
	for _, e := range w.extents() {
		middle := (e.From + e.To) / 2
		first, second := e, e
		first.From, first.To = e.From+3, middle-2
		second.From, second.To = middle+2, e.To-3
		out = append(out, first, second)
	}
	return out
}

// present is what an answer about the ranges must be: the offsets of records,
// those that follow each other as one range.
func (w *world) present(asked []warehouse.Extent) string {
	type at struct{ partition, offset int64 }
	there := make(map[at]bool)
	for _, r := range w.records {
		if w.incarnation(r) == 1 {
			there[at{int64(r.id.Partition), r.id.Offset}] = true
		}
	}
	var rows []warehouse.Row
	for _, e := range asked {
		for o := e.From; o < e.To; o++ {
			last := len(rows) - 1
			switch {
			case !there[at{e.Partition, o}]:
			case last >= 0 && rows[last]["to_offset"] == o && rows[last]["kafka_partition"] == e.Partition:
				rows[last]["to_offset"] = o + 1
			default:
				rows = append(rows, warehouse.Row{"kafka_partition": e.Partition, "from_offset": o, "to_offset": o + 1})
			}
		}
	}
	return texted(rows)
}

// TestAskingForSingleOffsets: the log and raw know exactly the offsets that have
// records, and each remedy in the text is needed.
func TestAskingForSingleOffsets(t *testing.T) {
	tests := []struct {
		name, statement string
		old, new        string // "" leaves the statement as it is
		doubled         bool   // the log has each record twice
		whole           bool
	}{
		{name: "the log", statement: "audit_found", whole: true},
		{name: "a log that somebody else doubled", statement: "audit_found", doubled: true, whole: true},
		{name: "without DISTINCT copies of the log shift the ranks", statement: "audit_found", doubled: true, old: "SELECT DISTINCT", new: "SELECT"},
		{name: "records without a plausible timestamp lie on a day of their own", statement: "audit_found", old: "OR l.kafka_date = DATE '1970-01-01'", new: ""},
		{name: "another incarnation has the same offsets", statement: "audit_found", old: "AND a.kafka_topic_id = l.kafka_topic_id", new: ""},
		{name: "raw", statement: "audit_landed", whole: true},
		{name: "without DISTINCT copies in raw shift the ranks", statement: "audit_landed", old: "SELECT DISTINCT", new: "SELECT"},
		{name: "another incarnation in raw", statement: "audit_landed", old: "AND a.kafka_topic_id = l.kafka_topic_id", new: ""},
		{name: "offsets beside the ranges", statement: "audit_landed", old: "AND l.kafka_offset >= a.from_offset", new: ""},
	}
	ctx := t.Context()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			change := map[string]func(string) string{}
			if test.old != "" {
				change[test.statement] = edit(test.old, test.new)
			}
			s := start(ctx, t, newWorld(t, 35, warehouse.Raw), change)
			now := genesis.AddDate(0, 0, 12)
			s.land(ctx, t, now)
			s.merge(ctx, t, now)
			if test.doubled {
				log := s.warehouse.Table("log")
				if _, err := s.warehouse.DB.ExecContext(ctx, "INSERT INTO "+log+" SELECT * FROM "+log); err != nil {
					t.Fatal(err)
				}
			}
			asked := s.asked()
			rows, err := s.warehouse.Audit(ctx, test.statement, bounds(asked), now)
			if err != nil {
				t.Fatal(err)
			}
			want := s.present(asked)
			if got := texted(rows); (got == want) != test.whole {
				t.Errorf("got  %s\nwant %s (equal: %v)", got, want, test.whole)
			}
			if strings.Count(want, "[") < 2*len(asked) {
				t.Error("the world has too few holes")
			}
		})
	}
}
