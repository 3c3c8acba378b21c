//go:build mutants

package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	module = "../../.." // from here to the top
	// enough seeds must catch every mutant; a block of them runs at once.
	enough = 200
	block  = 10
	// blockLimit is when a block hangs, which counts as caught.
	blockLimit = 4 * time.Minute
)

// edit replaces text that must be in the file exactly once.
type edit struct{ file, from, to string }

// mutants are planted bugs in both sides and between them, which the simulation
// must notice by what reaches the two ends alone.
func mutants() []struct {
	name  string
	edits []edit
} {
	return []struct {
		name  string
		edits []edit
	}{
		// What Pub/Sub said.
		{"a forbidden batch is skipped", []edit{{
			"sink/publication.go", "	p.batch.SetStalled(true)\n	switch classify(err) {\n",
			"	p.batch.SetStalled(true)\n	if codeOf(err) == codes.PermissionDenied {\n		p.todo = p.todo[:len(p.todo)-1]\n		return nil\n	}\n	switch classify(err) {\n",
		}}},
		{"a short list of ids is ignored", []edit{{"sink/publication.go", "if c.ids != n {", "if n < 0 {"}}},
		{"a request that timed out counts as delivered", []edit{{
			"sink/publication.go", "		return err //nolint:wrapcheck // classified", "		if codeOf(err) == codes.DeadlineExceeded {\n			return nil\n		}\n		return err //nolint:wrapcheck // classified",
		}}},
		{"poison is sent again for ever", []edit{{"sink/classify.go", "	case codes.InvalidArgument:\n		return fault.Poison\n", "	case codes.InvalidArgument:\n		return fault.Retryable\n"}}},
		{"any internal error is poison", []edit{{"sink/classify.go", "codes.Aborted, codes.Internal, codes.Unavailable:", "codes.Aborted, codes.Unavailable:"}, {"sink/classify.go", "	case codes.InvalidArgument:\n		return fault.Poison\n", "	case codes.InvalidArgument, codes.Internal:\n		return fault.Poison\n"}}},
		{"a record is parked without an acknowledgement", []edit{{
			"sink/park.go", "func(ctx context.Context) error { return p.attempt(ctx, c, r.deadRequest, 1) }", "func(ctx context.Context) error { _ = p.attempt(ctx, c, r.deadRequest, 1); return nil }",
		}}},
		{"a record that never fits is dropped", []edit{{"sink/park.go", "		return p.park(ctx, 0, refusal)\n", "		return nil\n"}}},
		{"parking is not reported", []edit{{"sink/park.go", "	r.events(fault.Event{\n", "	_ = (fault.Event{\n"}, {"sink/park.go", "Reason: refusal.Error(),\n	})\n", "Reason: refusal.Error(),\n	}.Kind)\n"}}},
		{"halves of a batch go out in the wrong order", []edit{{
			"sink/isolate.go", "part{middle, u.to}, part{u.from, middle})", "part{u.from, middle}, part{middle, u.to})",
		}}},
		{"the second half is forgotten", []edit{{
			"sink/isolate.go", "part{middle, u.to}, part{u.from, middle})", "part{u.from, middle})",
		}}},
		{"a hold outlives its last batch", []edit{{"sink/sink.go", "if r.active.Add(-1) == 0 {", "if r.active.Add(-1) < 0 {"}}},
		{"a held route is never probed again", []edit{{"sink/hold.go", "func (h *hold) pass() { h.token <- struct{}{} }", "func (h *hold) pass() {}"}}},

		// Identity.
		{"the key has no topic id", []edit{{"internal/message/id.go", "if topicID == ([16]byte{}) {", "if len(topicID) == 16 {"}}},
		{"the key has no leader epoch", []edit{{"internal/message/id.go", "strconv.AppendInt(b, int64(epoch), 10)", "strconv.AppendInt(b, 0, 10)"}}},
		{"a tombstone becomes an empty value", []edit{{"internal/message/attributes.go", `"kafka_tombstone"`, `"kafka_tomb"`}}},

		// Envelopes.
		{"what is not JSON is published", []edit{{"internal/message/envelope.go", "why != \"\" {", "why == \"?\" {"}}},
		{"an undecodable record is parked in its envelope", []edit{{"internal/message/encoder.go", "e.data, e.wraps = len(e.value), false\n", ""}}},
		{"the envelope names the offset of another record", []edit{{"internal/message/encoder.go", "strconv.AppendInt(more[:0], r.Gap, 10)", "strconv.AppendInt(digits[:0], r.Gap, 10)"}}},
		{"a null value in an envelope is no tombstone", []edit{{"internal/message/envelope.go", "r.Value == nil)\n", "len(r.Value) == 0)\n"}}},
		{"the envelope has the headers of attributes alone", []edit{{"internal/message/envelope.go", "for i := range headers {", "for i := range min(len(headers), 2) {"}}},

		// What is committed, by whom.
		{"last is committed instead of next", []edit{{"consumer/lane.go", "Offset: safe.next}", "Offset: safe.next - 1}"}}},
		{"the highest acknowledged is committed", []edit{{"consumer/ledger.go", "	var safe position\n	moved := false\n", "	safe, moved := s.to, true\n"}}},
		{"a batch that was given up counts as delivered", []edit{{"consumer/lane.go", "	if f.err == nil {\n", "	if true {\n"}, {"consumer/retire.go", "		p.ledger.detached = true\n", ""}}},
		{"a partition that comes back keeps its ledger", []edit{
			{"consumer/retire.go", "			delete(l.parts, n)\n", ""},
			{
				"consumer/retire.go", "		p := &partition{",
				"		if old := l.parts[n]; old != nil {\n			old.ledger.detached = false\n			continue\n		}\n		p := &partition{",
			},
		}},
		{"what a former member had is committed", []edit{{"consumer/reborn.go", "r.had.Load() && member != r.last", "r.had.Load() && member == \"\""}}},
		{"the client commits what was polled", []edit{{"consumer/client.go", "		kgo.AutoCommitMarks(),\n", ""}}},
		{"no commit at a revoke", []edit{{"consumer/rebalance.go", "	within(ctx, commitRevoke, func(ctx context.Context) { c.noteCommit(cl.CommitMarkedOffsets(ctx)) })\n", ""}}},
		{"aborted records are read", []edit{{"consumer/client.go", "kgo.ReadCommitted()", "kgo.ReadUncommitted()"}}},
		{"markers of transactions hold the commit", []edit{{"consumer/client.go", "		kgo.KeepControlRecords(),\n", ""}}},
		{"several batches of an ordered partition at once", []edit{{"consumer/retire.go", "&queue{limit: 1}", "&queue{limit: 4}"}}},
		{"a paused route is never resumed", []edit{{"consumer/gate.go", "if s.paused && s.inHand", "if s.paused && s.inHand < 0 && s.inHand"}}},
		{"the end is not bounded", []edit{{"consumer/consumer.go", "	case <-ctx.Done():\n	}\n}", "	}\n}"}}},
	}
}

// TestMutants runs the simulation with each planted bug until a seed fails.
func TestMutants(t *testing.T) {
	var caught []int
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			n, how := hunt(t, build(t, m.edits))
			if n == 0 {
				t.Fatalf("%d seeds did not catch it", enough)
			}
			t.Logf("caught by seed %d: %s", n, how)
			caught = append(caught, n)
		})
	}
	if len(caught) > 0 {
		slices.Sort(caught)
		t.Logf("%d mutants caught; seeds to catch: median %d, most %d", len(caught), caught[len(caught)/2], caught[len(caught)-1])
	}
}

// build compiles this package's tests with the edits in place of the files.
func build(t *testing.T, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	files, replace := map[string]string{}, map[string]string{}
	for _, e := range edits {
		path, err := filepath.Abs(filepath.Join(module, e.file))
		if err != nil {
			t.Fatal(err)
		}
		text, edited := files[path]
		if !edited {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.from); n != 1 {
			t.Fatalf("%s has the text to replace %d times: %q", e.file, n, e.from)
		}
		files[path] = strings.Replace(text, e.from, e.to, 1)
		replace[path] = filepath.Join(dir, strings.ReplaceAll(e.file, "/", "_"))
	}
	for path, text := range files {
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-tags", "synctests", "-overlay", list, "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the mutant does not build: %v\n%s", err, out)
	}
	return binary
}

var (
	verdict = regexp.MustCompile(`(?m)^ +--- (PASS|FAIL): TestSimulation/seed_(\d+)`)
	reason  = regexp.MustCompile(`(?m)(I\d|EVENTS) broken[^\n]*|no quiet[^\n]*|the stop took[^\n]*|bytes are in hand[^\n]*|no life[^\n]*|was parked, but[^\n]*|panic:[^\n]*`)
)

// hunt returns how many seeds it took to catch the mutant, 0 for never, and by
// what it was caught.
func hunt(t *testing.T, binary string) (seeds int, how string) {
	t.Helper()
	for first := 1; first <= enough; first += block {
		ctx, cancel := context.WithTimeout(t.Context(), blockLimit)
		cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestSimulation$", "-test.v")
		cmd.Env = append(os.Environ(), fmt.Sprint("SIM_FIRST=", first), fmt.Sprint("SIM_SEEDS=", block))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		hung := ctx.Err() != nil
		cancel()
		if err == nil {
			continue
		}
		how = reason.FindString(out.String())
		if hung {
			how = "it hangs"
		}
		least := first + block - 1
		for _, v := range verdict.FindAllStringSubmatch(out.String(), -1) {
			var n int
			if _, err := fmt.Sscan(v[2], &n); err == nil && v[1] == "FAIL" {
				least = min(least, n)
			}
		}
		return least, how
	}
	return 0, ""
}
