package duckdb

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// edit is a change of the text: each pair is old and new.
func edit(pairs ...string) func(string) string {
	return func(sql string) string {
		for i := 0; i < len(pairs); i += 2 {
			changed := strings.ReplaceAll(sql, pairs[i], pairs[i+1])
			if changed == sql {
				return "" // start tells text that it does not know
			}
			sql = changed
		}
		return sql
	}
}

// lock is the UPDATE of the control row with the test behind it.
var lock = regexp.MustCompile("(?s)UPDATE `[^`]*_merge_state`.*?END IF;")

const (
	later = `s.kafka_partition > t.kafka_partition
          OR (s.kafka_partition = t.kafka_partition AND s.kafka_leader_epoch > t.kafka_leader_epoch)
          OR (s.kafka_partition = t.kafka_partition AND s.kafka_leader_epoch = t.kafka_leader_epoch AND s.kafka_offset > t.kafka_offset)`
	latest = "l.kafka_partition DESC, l.kafka_leader_epoch DESC, l.kafka_offset DESC"
	newest = "i.first_publish_time DESC, "
)

// TestTraps removes one remedy at a time. The simulation must see what it was
// there for; else it proves nothing.
func TestTraps(t *testing.T) {
	tests := []struct {
		name      string
		want      string // what must be found
		noCurrent bool
		change    map[string]func(string) string
	}{
		{
			name: "two insert-only merges at once both commit", want: "log: repeated", noCurrent: true,
			change: map[string]func(string) string{"merge_procedure": func(s string) string { return lock.ReplaceAllString(s, "") }},
		},
		{
			name: "a log partitioned by publish time misses the first copy", want: "log: repeated",
			change: map[string]func(string) string{"merge_procedure": edit(
				"kafka_date BETWEEN seen_date_min AND seen_date_max OR kafka_date = DATE '1970-01-01'", "DATE(publish_time) BETWEEN DATE(window_start) AND DATE(now_ts)",
				"t.kafka_date BETWEEN new_date_min AND new_date_max OR t.kafka_date = DATE '1970-01-01'", "DATE(t.publish_time) BETWEEN DATE(new_publish_min) AND DATE(new_publish_max)",
			)},
		},
		{
			name: "a sweep measured from the watermark loses what landed behind the last one", want: "log: missing",
			change: map[string]func(string) string{"merge_procedure": edit("LEAST(swept_ts, now_ts)", "LEAST(watermark_ts, now_ts)")},
		},
		{
			name: "a tombstone that deletes at once lets an older record bring the key back", want: "current: wrong",
			change: map[string]func(string) string{"merge_procedure": edit(
				"WHEN MATCHED AND (", "WHEN MATCHED AND s.is_tombstone AND ("+later+") THEN DELETE WHEN MATCHED AND (",
				"WHEN NOT MATCHED THEN\n        INSERT (\n          kafka_key", "WHEN NOT MATCHED AND NOT s.is_tombstone THEN\n        INSERT (\n          kafka_key",
			)},
		},
		{
			name: "record timestamps do not order versions", want: "current: wrong",
			change: map[string]func(string) string{"merge_procedure": edit(later, "s.kafka_timestamp > t.kafka_timestamp", latest, "l.kafka_timestamp DESC")},
		},
		{
			name: "nor does the order of arrival", want: "current: wrong",
			change: map[string]func(string) string{"merge_procedure": edit(later, "TRUE")},
		},
		{
			name: "nor do offsets alone after an unclean election", want: "current: wrong",
			change: map[string]func(string) string{"merge_procedure": edit(
				later, "s.kafka_offset > t.kafka_offset", latest, "l.kafka_offset DESC")},
		},
		{
			name: "a recreated topic starts again at 0, so the first publish orders incarnations", want: "latest: wrong",
			change: map[string]func(string) string{"latest_view": edit(newest, "")},
		},
		{
			name: "also among the rows that the merge keeps", want: "midway current: wrong",
			change: map[string]func(string) string{"current_view": edit(newest, "")},
		},
		{
			name: "a lookback without a sweep misses what comes days later", want: "log: missing",
			change: map[string]func(string) string{"merge_procedure": edit("TIMESTAMP_DIFF(now_ts, swept_ts, MINUTE) >= 1440", "FALSE")},
		},
		{
			name: "a source that is not reduced inserts both copies", want: "log: repeated",
			change: map[string]func(string) string{"merge_procedure": edit("QUALIFY ROW_NUMBER() OVER (PARTITION BY r.idempotency_key ORDER BY r.publish_time, r.message_id) = 1", "")},
		},
		{
			name: "a mark that the next sweep drops protects for a day only", want: "current: wrong",
			change: map[string]func(string) string{"merge_procedure": edit("OVER (PARTITION BY c.kafka_key) < TIMESTAMP_SUB(now_ts, INTERVAL 10140 MINUTE)", "OVER (PARTITION BY c.kafka_key) < now_ts")},
		},
		{
			name: "a tombstone left out before the choice shows the version before", want: "latest: wrong",
			change: map[string]func(string) string{"latest_view": edit("WHERE l.kafka_key IS NOT NULL", "WHERE l.kafka_key IS NOT NULL AND NOT l.is_tombstone")},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var found []finding
			for seed := uint64(11); seed < 15; seed++ {
				w := newWorld(t, seed, warehouse.Raw)
				w.spec.NoCurrent = test.noCurrent
				s := start(t.Context(), t, w, test.change)
				s.play(t.Context(), t)
				found = append(s.midway, s.compare(t.Context(), t, s.warehouse)...)
				if slices.ContainsFunc(found, func(f finding) bool { return strings.HasPrefix(f.what, test.want) }) {
					t.Logf("seed %d: %v", seed, found)
					return
				}
			}
			t.Errorf("no seed shows %q, the last one %v", test.want, found)
		})
	}
}

// TestBackfillDoesNotStandInForTheSweep: a call that looks back an hour, made
// when a sweep is due, must not count as the sweep.
func TestBackfillDoesNotStandInForTheSweep(t *testing.T) {
	backlog := func(change map[string]func(string) string) []finding {
		ctx := t.Context()
		s := start(ctx, t, newWorld(t, 21, warehouse.Raw), change)
		now := genesis.AddDate(0, 0, 12) // nothing was ever merged
		s.land(ctx, t, now)
		if err := s.warehouse.Backfill(ctx, now, now.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		s.merge(ctx, t, now.Add(25*time.Hour))
		return s.compare(ctx, t, s.warehouse)
	}
	if found := backlog(nil); len(found) > 0 {
		t.Errorf("%v", found)
	}
	broken := map[string]func(string) string{"merge_procedure": edit("LEAST(window_start, COALESCE(backfill_from, window_start))", "COALESCE(backfill_from, window_start)")}
	if found := backlog(broken); len(found) == 0 {
		t.Error("nobody notices when it does")
	}
}

// TestBackfillReachesFurther: after a seek or a replay, what was published long
// ago lands behind every sweep.
func TestBackfillReachesFurther(t *testing.T) {
	ctx := t.Context()
	s := start(ctx, t, newWorld(t, 22, warehouse.Raw), nil)
	now := genesis.AddDate(0, 0, 20)
	s.merge(ctx, t, now) // nothing has landed
	s.land(ctx, t, now)
	s.merge(ctx, t, now.Add(25*time.Hour))
	if n := count(ctx, t, s.warehouse.DB, "SELECT count(*) FROM "+s.warehouse.Table("log")); n != 0 {
		t.Fatalf("%d rows merged: the world is younger than the sweep looks back", n)
	}
	if err := s.warehouse.Backfill(ctx, now.Add(26*time.Hour), genesis.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.compare(ctx, t, s.warehouse) {
		t.Errorf("%s %d", f.what, f.n)
	}
}
