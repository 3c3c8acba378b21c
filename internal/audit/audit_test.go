package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// audited runs an audit of w, with changes to its options.
func audited(t *testing.T, w *world, change func(*Options)) (*Reports, *Report) {
	t.Helper()
	o := Options{
		Warehouse: w, Kafka: w, Cluster: "msk", Since: time.Now().Add(-24 * time.Hour), Settle: 2 * time.Minute,
		Spec: warehouse.Spec{Dataset: "kafka", Topic: "orders", Format: warehouse.Raw, RetentionDays: 7},
	}
	if change != nil {
		change(&o)
	}
	reports, err := Run(t.Context(), []Options{o}, 1_000_000, false, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	r := reports.Routes[0]
	for _, p := range r.Partitions {
		sum := p.Landed + p.Holes + p.Expired + p.Parked + p.Skipped + p.Unpromised + p.Missing + p.Unconfirmed
		if p.Expected != sum {
			t.Errorf("partition %d: %d offsets are expected, %d accounted for: %+v", p.Partition, p.Expected, sum, p.Counts)
		}
	}
	return reports, r
}

// seen is a short text of what an audit said.
func seen(r *Report) string {
	var parts []string
	for _, p := range r.Partitions {
		for _, list := range []struct {
			name string
			all  []Range
		}{
			{"missing", p.MissingRanges},
			{"unconfirmed", p.UnconfirmedRanges},
			{"holes", p.HoleRanges},
			{"expired", p.ExpiredRanges},
			{"parked", p.ParkedRanges},
			{"skipped", p.SkippedRanges},
		} {
			for _, s := range list.all {
				parts = append(parts, fmt.Sprintf("%s %d: %s", list.name, p.Partition, words(s)))
			}
		}
	}
	return strings.Join(parts, ", ")
}

func TestAudit(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*world)
		change  func(*Options)
		want    string // what seen says
		code    int
		says    string // part of a finding, a problem or a command line
		check   func(*testing.T, *world, *Report)
	}{
		{
			name: "nothing is missing", prepare: func(*world) {}, want: "",
			check: func(t *testing.T, w *world, r *Report) {
				if r.Totals.Landed != 200 || len(w.read) > 0 || slices.Contains(w.asked, auditFound) {
					t.Errorf("%d landed; Kafka read %v; asked %v", r.Totals.Landed, w.read, w.asked)
				}
			},
		},
		{
			name: "exactly what was taken is missing", want: "missing 0: 3 to 5, missing 1: 0, missing 1: 99", code: fault.CodeFailed,
			prepare: func(w *world) { w.lose(0, 3, 4, 5); w.lose(1, 0, 99) },
			says:    "mskbridge replay --route orders --partition 0 --from 3 --to 6",
		},
		{
			name: "neighbouring ranges are one command line", want: "missing 0: 3, missing 0: 7", code: fault.CodeFailed,
			prepare: func(w *world) { w.lose(0, 3, 7) },
			says:    "--from 3 --to 8",
		},
		{
			name: "what Kafka deleted meanwhile has expired", want: "missing 0: 50, expired 0: 10 to 12", code: fault.CodeFailed,
			prepare: func(w *world) {
				w.lose(0, 10, 11, 12, 50)
				w.deleted = 20
			},
		},
		{
			name: "what compaction took is a hole", want: "holes 0: 10 to 12",
			prepare: func(w *world) {
				w.lose(0, 10, 11, 12)
				for o := range int64(3) {
					w.logs[0].holes[10+o] = true
				}
			},
		},
		{
			name: "what records declare needs no question", want: "",
			prepare: func(w *world) { w.lose(0, 10, 11); w.raw[0][12].gap = 2 },
			check: func(t *testing.T, w *world, r *Report) {
				if r.Totals.Holes != 2 || len(w.read) > 0 {
					t.Errorf("%d holes, Kafka read %v", r.Totals.Holes, w.read)
				}
			},
		},
		{
			name: "what no request can carry is parked", want: "missing 0: 11, parked 0: 10", code: fault.CodeFailed,
			prepare: func(w *world) { w.lose(0, 10, 11); w.logs[0].parked[10] = true },
			says:    "dead-letter topic",
		},
		{
			name: "what the log knows landed earlier", want: "missing 0: 11", code: fault.CodeFailed,
			prepare: func(w *world) { w.lose(0, 10, 11); w.merged[0] = []int64{10} },
			says:    "clock is ahead",
			check: func(t *testing.T, w *world, r *Report) {
				if r.Totals.LandedBefore != 1 || !slices.Equal(w.read, []string{"0: 11"}) {
					t.Errorf("%+v, Kafka read %v", r.Totals, w.read)
				}
			},
		},
		{
			name: "also when it is older than the time of the audit can be", want: "missing 0: 12", code: fault.CodeFailed,
			prepare: func(w *world) {
				w.lose(0, 10, 11, 12)
				w.merged[0] = []int64{10, 11}
				w.days = map[int64]time.Time{10: time.Now().AddDate(-1, 0, 0), 11: time.Now().AddDate(0, -2, 0)}
			},
			says: "2 records had landed before",
		},
		{
			name: "what is on its way lands", want: "missing 0: 12", code: fault.CodeFailed,
			prepare: func(w *world) {
				w.lose(0, 12)
				w.raw[0][10].at = time.Now().Add(20 * time.Second)
				w.raw[0][11].at = time.Now().Add(119 * time.Second)
			},
			says: "on their way",
		},
		{
			name: "nobody waits where nobody wants to", want: "missing 0: 10", code: fault.CodeFailed,
			change:  func(o *Options) { o.Settle = 0 },
			prepare: func(w *world) { w.raw[0][10].at = time.Now().Add(time.Millisecond) },
		},
		{
			name: "what was given up is skipped", want: "missing 0: 9, skipped 0: 10 to 11", code: fault.CodeFailed,
			change:  func(o *Options) { o.Skip = map[int32][]Range{0: {{10, 12}, {80, 90}}} },
			prepare: func(w *world) { w.lose(0, 9, 10, 11) },
		},
		{
			name: "nothing is promised without a commit", want: "",
			prepare: func(w *world) { w.logs[1].committed = -1; w.lose(1, 5) },
			says:    "has no commit",
		},
		{
			name: "nor behind the commit, nor before the time", want: "missing 1: 40", code: fault.CodeFailed,
			prepare: func(w *world) { w.logs[1].committed, w.logs[1].since = 50, 40; w.lose(1, 5, 39, 40, 50, 60) },
		},
		{
			name: "nor before the log begins, though it moved while Kafka was asked", want: "missing 1: 4", code: fault.CodeFailed,
			prepare: func(w *world) { w.logs[1].start = 4; w.lose(1, 2, 3, 4) },
		},
		{
			name: "a route that starts at latest begins with what landed first", want: "missing 0: 30", code: fault.CodeFailed,
			change: func(o *Options) { o.Latest = true },
			prepare: func(w *world) {
				for o := range int64(20) {
					w.lose(0, o)
				}
				w.lose(0, 30)
			},
			says: "starts at latest",
		},
		{
			name: "other incarnations are listed apart", want: "",
			prepare: func(w *world) {
				w.others = []warehouse.Row{{
					"kafka_cluster": "msk", "kafka_topic_id": "before", "kafka_partition": int64(0), "is_expected": false,
					"landed_records": int64(7), "first_offset": int64(0), "last_offset": int64(9),
				}}
			},
			says: "another incarnation",
		},
		{
			name: "a topic created again during the audit proves nothing", want: "unconfirmed 0: 4", code: fault.CodeUnknown,
			prepare: func(w *world) { w.lose(0, 4); w.recreateAtReread = true }, says: "created again",
		},
		{
			name: "a commit behind the end is of another log", want: "", code: fault.CodeUnknown,
			prepare: func(w *world) { w.logs[1].committed = 101; w.lose(1, 4) }, says: "the log ends at 100",
		},
		{
			name: "a partition without a leader is not known", want: "", code: fault.CodeUnknown,
			prepare: func(w *world) { w.logs[1].err = errDown }, says: "partition 1: it is down",
		},
		{
			name: "deleted before it was committed", want: "",
			prepare: func(w *world) { l := w.logs[1]; l.committed, l.start, l.since = 10, 20, 20 },
			says:    "offsets 10 to 19 were deleted in Kafka before they were committed",
		},
		{
			name: "where reading ends early, a record stands for the rest", want: "missing 0: 20 to 59", code: fault.CodeFailed,
			prepare: func(w *world) {
				w.bound = 15
				for o := int64(20); o < 60; o++ {
					w.lose(0, o)
				}
				w.logs[0].holes[58] = true // nobody looked
			},
			says: "25 offsets count as missing without having been read again",
		},
		{name: "Kafka is unreachable", want: "", code: fault.CodeUnknown, prepare: func(w *world) { w.kafkaErr = errDown }, says: "it is down"},
		{
			name: "Kafka cannot be read again", want: "unconfirmed 0: 4, unconfirmed 1: 5", code: fault.CodeUnknown,
			prepare: func(w *world) { w.lose(0, 4); w.lose(1, 5); w.rereadErr = errDown }, says: "it is down",
			check: func(t *testing.T, w *world, _ *Report) {
				if len(w.read) != 1 {
					t.Errorf("Kafka was asked for %v although the first failed", w.read)
				}
			},
		},
		{
			name: "raw is missing", want: "unconfirmed 0: 0 to 99, unconfirmed 1: 0 to 99", code: fault.CodeUnknown,
			prepare: func(w *world) { w.queryErr["estimate "+auditPartitions] = errDown }, says: "it is down",
		},
		{
			name: "an answer that leaves something out is none", want: "unconfirmed 0: 0 to 99, unconfirmed 1: 0 to 99", code: fault.CodeUnknown,
			prepare: func(w *world) { w.forgotten = 1 }, says: "0 of 100 offsets of partition 1",
		},
		{
			name: "the log cannot be asked", want: "unconfirmed 0: 4", code: fault.CodeUnknown,
			prepare: func(w *world) { w.lose(0, 4); w.queryErr[auditFound] = errDown }, says: "it is down",
		},
		{
			name: "raw cannot be asked again", want: "unconfirmed 0: 4", code: fault.CodeUnknown,
			prepare: func(w *world) { w.lose(0, 4); w.queryErr[auditLanded] = errDown }, says: "it is down",
		},
		{
			name: "the log's own audits fail, what is missing is missing", want: "missing 0: 4", code: fault.CodeFailed,
			prepare: func(w *world) { w.lose(0, 4); w.queryErr[auditFreshness] = errDown }, says: "it is down",
		},
		{
			name: "silence is no hole", want: "missing 0: 4, unconfirmed 0: 90 to 99", code: fault.CodeFailed,
			prepare: func(w *world) {
				w.lose(0, 4, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99)
				w.silent = 10
			},
			says: "10 offsets are not confirmed since Kafka answered with nothing",
		},
		{
			name: "an end that was asked for before the commit is asked for again", want: "missing 0: 4", code: fault.CodeFailed,
			prepare: func(w *world) { w.hurry = true; w.lose(0, 4) },
		},
		{
			name: "old records behind one dated ahead may be in a log that nobody merged", want: "unconfirmed 0: 10", code: fault.CodeUnknown,
			prepare: func(w *world) {
				w.lose(0, 10)
				w.days, w.watermark = map[int64]time.Time{10: time.Now().AddDate(0, 0, -3)}, time.Now().AddDate(0, 0, -2)
			},
			says: "run the merge, or choose an earlier --since",
		},
		{
			name: "a log that was merged since knows", want: "missing 0: 10", code: fault.CodeFailed,
			prepare: func(w *world) { w.lose(0, 10); w.days = map[int64]time.Time{10: time.Now().AddDate(0, 0, -3)} },
		},
		{
			name: "a group that lags behind the time is told", want: "",
			prepare: func(w *world) { w.logs[1].committed, w.logs[1].since = 50, 60 }, says: "ends before --since",
		},
		{
			name: "so is a log that is shorter", want: "",
			prepare: func(w *world) { w.logs[1].start, w.logs[1].since = 40, 40 }, says: "its log begins behind --since",
		},
		{
			name: "an incarnation is told once", want: "",
			prepare: func(w *world) {
				for p := range int64(3) {
					w.others = append(w.others, warehouse.Row{
						"kafka_cluster": "msk", "kafka_topic_id": "before", "kafka_partition": p, "is_expected": false,
						"landed_records": int64(7), "first_offset": int64(0), "last_offset": int64(9),
					})
				}
			},
			says: "21 records of another incarnation of the topic landed: cluster msk, topic id before, 3 partitions",
			check: func(t *testing.T, _ *world, r *Report) {
				if len(r.Findings) != 1 {
					t.Errorf("%d findings", len(r.Findings))
				}
			},
		},
		{name: "unmerged records are told", want: "", prepare: func(w *world) { w.unmerged = 3 }, says: "3 records landed before the watermark"},
		{name: "repeated ones, too", want: "", prepare: func(w *world) { w.repeated = 2 }, says: "2 records are in the log more than once"},
		{name: "and a sweep long ago", want: "", prepare: func(w *world) { w.sinceSweep = 3000 }, says: "the last sweep of the log ended 50h"},
		{name: "and a merge that never ran", want: "", prepare: func(w *world) { w.watermark = time.Unix(0, 0) }, says: "never run"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.partition(0, 100)
				w.partition(1, 100)
				test.prepare(w)
				reports, r := audited(t, w, test.change)
				if got := seen(r); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				if code := fault.Code(reports.Err()); code != test.code {
					t.Errorf("exit code %d (%s), want %d", code, reports.Result, test.code)
				}
				said := strings.Join(slices.Concat(r.Findings, r.Problems, r.Mend), "\n")
				if !strings.Contains(said, test.says) {
					t.Errorf("no %q in\n%s", test.says, said)
				}
				if text, err := json.Marshal(reports); err != nil || strings.Contains(string(text), "s\":null") {
					t.Errorf("%v, a list is null in %s", err, text)
				}
				if test.check != nil {
					test.check(t, w, r)
				}
			})
		})
	}
}

func TestDuplicatesAndConflictsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.partition(0, 10)
	w.raw[0][3].copies, w.raw[0][4].again, w.raw[0][5].identity2 = 2, 1, true
	_, r := audited(t, w, nil)
	c := r.Totals
	if c.Deliveries != 13 || c.DuplicatesByPublisher != 2 || c.DuplicatesBySubscription != 1 || c.ConflictingIdentities != 1 {
		t.Errorf("%+v", c)
	}
}

// TestMoreRangesThanCanBeListed: the counts stay exact, the lists say so.
func TestMoreRangesThanCanBeListed(t *testing.T) {
	w := newWorld(t)
	w.partition(0, 5000)
	for o := int64(0); o < 3000; o += 2 {
		w.lose(0, o)
	}
	reports, r := audited(t, w, func(o *Options) { o.Settle = 0 })
	p := r.Partitions[0]
	if p.Missing != 1000 || p.Unconfirmed != 500 || len(p.MissingRanges) != 1000 || !p.Cut || fault.Code(reports.Err()) != fault.CodeFailed {
		t.Errorf("%+v, %d ranges, cut %v", p.Counts, len(p.MissingRanges), p.Cut)
	}
}
