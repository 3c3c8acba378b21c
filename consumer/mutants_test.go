//go:build mutants

package consumer

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
	name  string
	edits []edit
}{
	// What may be committed.
	{"last is marked instead of next", []edit{{"lane.go", "Offset: safe.next}", "Offset: safe.next - 1}"}}},
	{"the highest acknowledged is marked, not the prefix", []edit{{"ledger.go", "	var safe position\n	moved := false\n", "	safe, moved := s.to, true\n"}}},
	{"a late acknowledgement moves a detached ledger", []edit{{"ledger.go", "moved && !l.detached", "moved"}}},
	{"the ledger is not detached", []edit{{"retire.go", "		p.ledger.detached = true\n", ""}}},
	{"marked before settled", []edit{{
		"pack.go", "	f.cover(p.ledger, r.Offset, to)\n",
		"	f.cover(p.ledger, r.Offset, to)\n	l.safe[p.ledger.partition] = kgo.EpochOffset{Epoch: to.epoch, Offset: to.next}\n",
	}}},
	{"a failed batch settles", []edit{{"lane.go", "	if f.err == nil {\n", "	if true {\n"}}},
	{"the client commits what was polled", []edit{{"client.go", "		kgo.AutoCommitMarks(),\n", ""}}},
	{"a partition that comes back keeps its ledger", []edit{
		{"retire.go", "			delete(l.parts, n)\n", ""},
		{
			"retire.go", "		p := &partition{",
			"		if old := l.parts[n]; old != nil {\n			old.ledger.detached = false\n			continue\n		}\n		p := &partition{",
		},
	}},
	{"a span that is done is extended", []edit{{"ledger.go", "return len(l.open) > l.head && l.open", "return len(l.open) == 0 || l.open"}}},
	{"compaction of the ledger loses one", []edit{{"ledger.go", "l.open[l.head:]...)", "l.open[l.head+1:]...)"}}},

	// Rebalance and stop.
	{"a revoke does not wait", []edit{{"retire.go", "if !now.Before(r.deadline) ||", "if true || !now.Before(r.deadline) ||"}}},
	{"a revoke waits without end", []edit{{"retire.go", "!now.Before(r.deadline) || ", ""}}},
	{"a revoke waits in silence", []edit{{"retire.go", " || now.Sub(r.moved) >= r.quiet", ""}}},
	{"a revoke waits for a stalled batch", []edit{{"retire.go", "return !f.batch.Stalled()", "return true"}}},
	{"a revoke does not send what is open", []edit{
		{"retire.go", "		p.queue.seal()\n", "		_ = p\n"},
		{"lane.go", "len(l.retiring) > 0)", "false)"},
	}},
	{"detached before what was acknowledged is marked", []edit{{
		"lane.go", "		l.flushMarks()\n		l.retireDue(now)\n", "		l.retireDue(now)\n		l.flushMarks()\n",
	}}},
	{"the reply comes before the detach", []edit{{"retire.go", "		l.detach(r.parts)\n		close(r.done)\n", "		close(r.done)\n		time.Sleep(time.Millisecond)\n		l.detach(r.parts)\n"}}},
	{"every batch is cancelled at a revoke", []edit{{"retire.go", "		if f.detached() {\n			f.cancel()", "		if f.cancel != nil {\n			f.cancel()"}}},
	{"no batch is cancelled at a revoke", []edit{{"retire.go", "			f.cancel()\n", ""}}},
	{"a batch counts as detached when one ledger is", []edit{{"queue.go", "		if !s.ledger.detached {\n			return false\n		}\n	}\n	return true\n", "		if s.ledger.detached {\n			return true\n		}\n	}\n	return false\n"}}},
	{"lost partitions go on", []edit{{"rebalance.go", "l.lose(partitions)", "_ = partitions"}}},
	{"no commit at a revoke", []edit{{"rebalance.go", "	within(ctx, commitRevoke, func(ctx context.Context) { c.noteCommit(cl.CommitMarkedOffsets(ctx)) })\n", ""}}},
	{"no drain at the end", []edit{{"consumer.go", "c.retire(all, drainStop, drainStop)", "c.retire(all, 0, 0)"}}},
	{"the end is not bounded", []edit{{"consumer.go", "	case <-ctx.Done():\n	}\n}", "	}\n}"}}},
	{"placed before the client is there", []edit{{"rebalance.go", "	case <-c.made:\n", "	default:\n"}}},

	// The gate.
	{"a paused route is never resumed", []edit{{"gate.go", "if s.paused && s.inHand", "if s.paused && s.inHand < 0 && s.inHand"}}},
	{"a route is never paused", []edit{{"gate.go", "s.inHand >= g.shareLocked(s)", "s.inHand > 1<<50"}}},
	{"held routes stop the poll", []edit{{"gate.go", "return moving < g.window/8", "return false"}}},
	{"the poll does not wait for the gate", []edit{{"gate.go", "	if g.inHand < g.window {\n", "	if g.inHand < g.window+1<<40 {\n"}}},
	{"a failed batch keeps its bytes", []edit{{"lane.go", "	l.gate.give(l.route.Topic, f.cost)\n", "	if f.err == nil {\n		l.gate.give(l.route.Topic, f.cost)\n	}\n"}}},
	{"a dropped batch keeps its bytes", []edit{{"retire.go", "			l.gate.give(l.route.Topic, f.cost)\n", ""}}},
	{"records that come too late keep their bytes", []edit{{"pack.go", "			n += l.route.cost(r)\n		}\n		l.gate.give(l.route.Topic, n)\n", "			n += l.route.cost(r)\n		}\n"}}},
	{"the gate forgets to stamp", []edit{{"gate.go", "time.NewTimer(wakeEvery)", "time.NewTimer(time.Hour)"}}},

	// Packing and sending.
	{"a control record is published", []edit{{"pack.go", "if r.Attrs.IsControl() {", "if r.Attrs.IsControl() && n < 0 {"}}},
	{"a control record is not settled", []edit{{"pack.go", "l.settled(p.ledger.begin(r.Offset, to))", "p.ledger.begin(r.Offset, to)"}}},
	{"a control record is passed over", []edit{{"pack.go", "		l.settled(p.ledger.begin(r.Offset, to))\n", ""}}},
	{"loss counts as holes", []edit{{"pack.go", "max(p.expected, logStart)", "p.expected"}}},
	{"holes after the committed offset are not counted", []edit{{"retire.go", "= committed, topicID, nil", "= -1, topicID, nil"}}},
	{"the topic id of the fetch is ignored", []edit{{"pack.go", "if topicID != ([16]byte{}) &&", "if topicID == ([16]byte{1: 255}) &&"}}},
	{"a refused record is not marked", []edit{{"pack.go", ", Refusal: refusal,", ","}}},
	{"a full slab waits for the next record", []edit{{"pack.go", " || f.batch.Len() == message.MaxMessages", " || f.batch.Len() > message.MaxMessages"}}},
	{"the byte limit is not kept", []edit{{"pack.go", "q.open.batch.Size()+size > l.sizes.SlabBytes", "q.open.batch.Size() > l.sizes.SlabBytes"}}},
	{"the slab of a failed batch is reused", []edit{{"lane.go", "		l.stats.abandoned.Add(1)\n", "		l.stats.abandoned.Add(1)\n		l.pool.put(f.batch.Slab)\n"}}},
	{"one more than K in flight", []edit{{"queue.go", "if q.inFlight >= q.limit {", "if q.inFlight > q.limit {"}}},
	{"two in flight for an ordered partition", []edit{{"retire.go", "&queue{limit: 1}", "&queue{limit: 2}"}}},
	{"the linger holds although something is in flight", []edit{{"queue.go", "		if q.inFlight == 0 {\n", "		if q.inFlight >= 0 {\n"}}},
	{"no linger", []edit{{"queue.go", "q.open.oldest.Add(linger)", "q.open.oldest"}}},

	// Keys.
	{"two requests of a key are in flight", []edit{
		{"keys.go", "!q.listed && q.inFlight == 0 && ", "!q.listed && q.inFlight < 2 && "}, {"keys.go", "limit: 1,", "limit: 2,"},
		{"lane.go", "		l.keyed.pop()\n", "		l.keyed.pop()\n		l.keyed.enlist(f.queue)\n"},
	}},
	{"the queue of a key stays behind", []edit{{"keys.go", "		delete(q.siblings, q.key)\n", "		_ = q.key\n"}}},
	{"what a key left is forgotten", []edit{{"keys.go", "	if k.enlist(q); q.empty() {", "	if q.empty() {"}}},

	// The client's options.
	{"a new group starts at the end", []edit{{"client.go", "kgo.ConsumeStartOffset(kgo.NewOffset().AtStart())", "kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd())"}}},
	{"aborted records are read", []edit{{"client.go", "kgo.ReadCommitted()", "kgo.ReadUncommitted()"}}},
	{"control records are not kept", []edit{{"client.go", "		kgo.KeepControlRecords(),\n", ""}}},
}

// TestMutants builds the package's tests once for each planted bug and expects
// them to fail. Nothing is written beside the temporary directory: the mutated
// files are laid over the real ones.
func TestMutants(t *testing.T) {
	if out, err := testWith(t, nil); err != nil {
		t.Fatalf("the tests fail without a mutant: %v\n%s", err, out)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			out, err := testWith(t, m.edits)
			if err == nil {
				t.Error("no test failed")
				return
			}
			t.Log(firstFailure(out))
		})
	}
}

// testWith runs the tests on the mutated package. Its error is that of the
// tests; a mutant that does not compile fails t.
func testWith(t *testing.T, edits []edit) (string, error) {
	t.Helper()
	dir := t.TempDir()
	binary, overlay := filepath.Join(dir, "consumer.test"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, overlayOf(t, dir, edits), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "synctests", "-overlay", overlay, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), binary, "-test.failfast", "-test.timeout", "60s")
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running: %v", err)
	}
	return string(out), err
}

func overlayOf(t *testing.T, dir string, edits []edit) []byte {
	t.Helper()
	texts := map[string]string{}
	for _, e := range edits {
		if texts[e.file] == "" {
			b, err := os.ReadFile(e.file)
			if err != nil {
				t.Fatal(err)
			}
			texts[e.file] = string(b)
		}
		if n := strings.Count(texts[e.file], e.from); n != 1 {
			t.Fatalf("%s has %d places like %q, want 1: bring the mutant up to date", e.file, n, e.from)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.from, e.to, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		real, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		replace[real] = filepath.Join(dir, file)
		if err := os.WriteFile(replace[real], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// firstFailure names the test that caught a mutant.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
			return strings.TrimSpace(line)
		}
	}
	return "the process failed without naming a test"
}
