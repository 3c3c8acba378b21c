//go:build mutants

package audit

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// edit replaces text that must be in the file exactly once.
type edit struct{ file, from, to string }

// mutants are planted bugs. The tests of the package are good enough when they
// fail for each of them.
var mutants = []struct { //nolint:gochecknoglobals // a table
	name string
	edit edit
}{
	{"what lies behind the commit is expected", edit{"audit.go", "p.To = e.Committed\n", "p.To = e.End\n"}},
	{"what was deleted is expected", edit{"audit.go", "max(e.Start, e.Since)", "e.Since"}},
	{"the time is not looked at", edit{"audit.go", "max(e.Start, e.Since)", "e.Start"}},
	{"a commit behind the end is believed", edit{"audit.go", "case e.Committed > e.End:", "case false:"}},
	{"a partition without a leader is whole", edit{"audit.go", "a.problem(fmt.Errorf(\"partition %d: %w\", e.Partition, e.Err))", ""}},
	{"Kafka is not asked again", edit{"audit.go", "	a.askKafka(ctx)\n", "	for _, p := range a.report.Partitions {\n		p.suspects = p.candidates\n	}\n"}},
	{"the log is not asked", edit{"audit.go", "	a.askLog(ctx)\n", ""}},
	{"the log is not asked for older days", edit{"audit.go", "	a.askOlder(ctx)\n", ""}},
	{"nobody waits", edit{"audit.go", "	a.settle(ctx)\n", ""}},
	{"a stop proves that records are missing", edit{"audit.go", "	if ctx.Err() != nil {\n		a.doubt = true\n", "	if ctx.Err() != nil {\n"}},
	{"doubt is forgotten", edit{"audit.go", "case a.doubt:", "case false:"}},
	{"each range is a command line", edit{"audit.go", "mendApart = 100", "mendApart = 0"}},
	{"last is printed instead of next", edit{"audit.go", "p.Partition, r.From, r.To))", "p.Partition, r.From, r.To-1))"}},
	{"a failed query is no problem", edit{"audit.go", "		a.failed = true\n		a.problem(err)\n		return\n	}\n	a.explain()", "		return\n	}\n	a.explain()"}},
	{"ranges beyond the list are forgotten", edit{"queries.go", "more > 0 {", "more > 0 && p == nil {"}},
	{"an answer need not add up", edit{"queries.go", "known != p.Expected {", "known > p.Expected {"}},
	{"others count for this incarnation", edit{"queries.go", "cell[bool](c, \"is_expected\") && ", ""}},
	{"the limit is not lowered by what was billed", edit{"queries.go", "a.limit-a.report.BilledBytes", "a.limit"}},
	{"late looks read all of raw", edit{"queries.go", "a.asked.Add(-margin); name == auditLanded", "a.asked.Add(margin); name == auditLanded"}},
	{"other topic ids are asked about", edit{"queries.go", "TopicID: a.topic.ID,", "TopicID: \"-\","}},
	{"what was skipped is missing", edit{"confirm.go", "p.candidates = p.candidates.without(skipped)", ""}},
	{"a late start promises everything", edit{"confirm.go", "if a.Latest {", "if false {"}},
	{"an early start promises nothing", edit{"confirm.go", "if a.Latest {", "if true {"}},
	{"what expired is missing", edit{"confirm.go", "asked.without(expired).without(silent)", "asked.without(silent)"}},
	{"silence is a hole", edit{"confirm.go", "p.unconfirm(silent)", "p.Holes += silent.count()"}},
	{"old suspects are believed", edit{"audit.go", "	a.doubtOld()\n", ""}},
	{"an end that is too old is believed", edit{"audit.go", "return e.Committed > e.End })", "return false })"}},
	{"what is parked is missing", edit{"confirm.go", "records := asked.and(union(r.Records...))", "records := asked.and(union(append(r.Records, r.Parked...)...))"}},
	{"what was not read is a hole", edit{"confirm.go", "asked = asked.without(rest)", "_ = rest"}},
	{"a record stands for nothing behind it", edit{"confirm.go", "if len(records) > 0 {", "if false {"}},
	{"a topic created again proves something", edit{"confirm.go", "case now.ID != a.topic.ID:", "case now.ID == \"\":"}},
	{"reading goes on after an error", edit{"confirm.go", "if failed != nil {\n				p.unconfirm(asked)\n				continue\n			}", ""}},
	{"nearby candidates bring in what lies between", edit{"confirm.go", "asked := p.candidates.and(union(span))", "asked := union(span)"}},
	{"what landed late is missing", edit{"confirm.go", "p.suspects = p.suspects.without(there)", ""}},
	{"the sum of all routes is not held against the limit", edit{"run.go", "case reports.EstimatedBytes > limit:", "case a.report.EstimatedBytes > 2*limit:"}},
	{"a dry run reads", edit{"run.go", "case dry:", "case false:"}},
	{"what could not be found out is whole", edit{"report.go", "case r.Totals.Unconfirmed > 0 || len(r.Problems) > 0:", "case false:"}},
	{"not finding out hides what is missing", edit{"report.go", "case r.Totals.Missing > 0:", "case r.Totals.Missing > 0 && len(r.Problems) == 0:"}},
	{"an audit of nothing is whole", edit{"audit.go", "	a.began()\n", ""}},
	{"a total loss after a late start is whole", edit{"confirm.go", "p.Unpromised > 0 {", "false {"}},
	{"another alias is a loss", edit{"confirm.go", "o.Cluster != a.Cluster && a.count", "false && a.count"}},
	{"what is behind a late landing is not read", edit{"audit.go", "	a.askRest(ctx)\n", ""}},
	{"what landed stands for what lies behind", edit{"confirm.go", "if len(records) > 0 {", "if len(r.Records) > 0 {"}},
	{"a dry run forgets what it could not find out", edit{"report.go", "whole, estimated, unknown, missing}", "whole, unknown, estimated, missing}"}},
	{"rows steer the terminal", edit{"table.go", "plain(f))\n	}\n	for _, f := range r.Problems", "f)\n	}\n	for _, f := range r.Problems"}},
	{"touching ranges stay apart", edit{"ranges.go", "r.From-out[last].To <= apart", "r.From-out[last].To < apart"}},
}

func TestMutants(t *testing.T) {
	if out, err := testWith(t, edit{"ranges.go", "package audit", "package audit"}); err != nil {
		t.Fatalf("the tests fail without a mutant: %v\n%s", err, out)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if _, err := testWith(t, m.edit); err == nil {
				t.Error("no test failed")
			}
		})
	}
}

// testWith runs the tests on the mutated package. Its error is that of the
// tests; a mutant that does not compile fails t.
func testWith(t *testing.T, e edit) (string, error) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(e.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), e.from); n != 1 {
		t.Fatalf("%s has %d places like %q, want 1: bring the mutant up to date", e.file, n, e.from)
	}
	real, err := filepath.Abs(e.file)
	if err != nil {
		t.Fatal(err)
	}
	mutated, binary, overlay := filepath.Join(dir, e.file), filepath.Join(dir, "audit.test"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{real: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(mutated, []byte(strings.Replace(string(text), e.from, e.to, 1)), 0o600), os.WriteFile(overlay, list, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary, "-test.failfast", "-test.timeout", "60s").CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("running: %v", err)
	}
	return string(out), err
}
