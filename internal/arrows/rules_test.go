package arrows

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/mskbridge/mskbridge"

// pkg is what the rules need to know of a package. Paths are relative to the
// module: "consumer", "internal/testbed/fakekafka".
type pkg struct {
	path    string
	imports []string // of its non-test files, full paths
	files   []file
}

type file struct {
	name  string // relative to the module
	lines int
	code  int // lines that hold more than a comment
	test  bool
	funcs []function
}

type function struct {
	name  string
	lines int
}

// arrow says which packages of the bridge a tree of packages may import.
type arrow struct {
	tree    string   // this path and everything below it
	imports []string // trees; "*" is everything
	why     string
}

// arrows has one line for every tree. A package that no line covers is an error.
func arrows() []arrow {
	return []arrow{
		{"cmd", []string{"*"}, "commands join everything"},
		{"bench", []string{"*"}, "benchmarks run everything"},
		{"consumer", []string{"internal/message", "internal/fault"}, "each side must be readable, testable and replaceable without the other; only cmd knows both"},
		{"sink", []string{"internal/message", "internal/fault"}, "each side must be readable, testable and replaceable without the other; only cmd knows both"},
		{"internal/message", []string{"internal/bqjson"}, "the mapping is pure: bytes in, bytes out"},
		{"internal/bqjson", nil, "it is about bytes alone"},
		{"internal/fault", nil, "the error classes are at the bottom"},
		{"internal/access", []string{"internal/fault"}, "credentials are handed on as functions and know nobody"},
		{"internal/config", []string{"internal/fault"}, "settings are plain values; cmd turns them into options"},
		{"internal/admin", []string{"internal/fault"}, "it shows a view that cmd fills from the snapshots of both sides"},
		{"internal/check", []string{"internal/fault"}, "it shows what others found out and asks nobody"},
		{"internal/logging", []string{"internal/fault"}, "events become lines, nothing else"},
		{"internal/store", []string{"internal/fault"}, "sink says what it needs of a store, and knows none"},
		{"internal/warehouse/remote", []string{"internal/warehouse", "internal/fault"}, "it runs what warehouse renders; whoever only renders compiles no client"},
		{"internal/warehouse", []string{"internal/message", "internal/fault"}, "SQL is made from the names that messages carry"},
		{"internal/audit/kafka", []string{"internal/audit", "consumer", "internal/message"}, "it is the Kafka side alone, through what consumer offers to commands"},
		{"internal/audit", []string{"internal/warehouse", "internal/fault"}, "it compares what two sides say, and reaches neither by itself"},
		{"internal/testbed", []string{"internal/testbed", "internal/message", "internal/fault"}, "fakes stand in for servers; a fake that knows the bridge would agree with its mistakes"},
		{"internal/arrows", nil, "it looks from outside"},
		{"integration", nil, "it runs the built binary and sees what users see"},
		{"deploy", nil, "it holds files, and tests of them"},
	}
}

// domain ties a library to the trees that may import it.
type domain struct {
	library string // this import path and everything below it
	trees   []string
	why     string
}

func domains() []domain {
	kafka := []string{"consumer", "internal/testbed", "bench"}
	google := []string{"sink", "internal/testbed", "internal/warehouse/remote", "bench"}
	return []domain{
		{"github.com/twmb/franz-go/pkg/kgo", kafka, "the Kafka client belongs to consumer; commands use its Inspect and Replay"},
		{"github.com/twmb/franz-go/pkg/kadm", kafka, "the Kafka client belongs to consumer; commands use its Inspect and Replay"},
		{"github.com/twmb/franz-go/pkg/kmsg", kafka, "the Kafka protocol belongs to consumer"},
		{"github.com/twmb/franz-go/pkg/kfake", []string{"internal/testbed", "bench"}, "the fake broker is for tests and the demo"},
		{"cloud.google.com/go/pubsub", google, "Pub/Sub belongs to sink; commands use its Probe"},
		{"google.golang.org/grpc", google, "gRPC belongs to sink"},
		{"github.com/kelseyhightower/envconfig", []string{"internal/config"}, "one package reads the environment, so that one table lists it"},
		{"github.com/aws", []string{"internal/access"}, "credentials have one home"},
		{"cloud.google.com/go/auth", []string{"internal/access"}, "credentials have one home"},
		{"gocloud.dev", []string{"internal/store"}, "buckets have one home"},
		{"google.golang.org/api/storage", []string{"internal/store"}, "buckets have one home"},
		{"cloud.google.com/go/bigquery", []string{"internal/warehouse/remote", "internal/testbed"}, "BigQuery's client belongs to warehouse/remote"},
		{"github.com/prometheus", []string{"internal/admin"}, "metrics are a view of the snapshots, never part of the logic"},
		{"github.com/spf13/cobra", []string{"cmd"}, "flags belong to commands"},
	}
}

// The budgets are lines of code, without tests and testbed. Comments and blank
// lines are free: a budget must not be met by saying less. Files and functions
// are measured as the reader scrolls them, everything included.
const (
	coreBudget = 6000 // docs/adr/0005-budget-of-lines.md; consumer, sink and internal/message
	restBudget = 9500 // docs/adr/0007-budget-of-the-rest.md
	fileLimit  = 400  // any Go file, tests too, is shorter
	funcLimit  = 60   // any function outside tests is shorter
)

// within reports whether path is tree or below it.
func within(path, tree string) bool {
	return tree == "*" || path == tree || strings.HasPrefix(path, tree+"/")
}

// checkArrows returns one sentence for each import that breaks a rule.
func checkArrows(pkgs []pkg) []string {
	var wrong []string
	for _, p := range pkgs {
		i := slices.IndexFunc(arrows(), func(a arrow) bool { return within(p.path, a.tree) })
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("%s has no arrows: say in docs/architecture.md and in this test what it may import", p.path))
			continue
		}
		rule := arrows()[i]
		for _, imported := range p.imports {
			if local, ours := strings.CutPrefix(imported, module+"/"); ours {
				if !slices.ContainsFunc(rule.imports, func(tree string) bool { return within(local, tree) }) {
					wrong = append(wrong, fmt.Sprintf("%s imports %s, but %s", p.path, local, rule.why))
				}
				continue
			}
			for _, d := range domains() {
				if within(imported, d.library) && !slices.ContainsFunc(d.trees, func(tree string) bool { return within(p.path, tree) }) {
					wrong = append(wrong, fmt.Sprintf("%s imports %s, but %s", p.path, imported, d.why))
				}
			}
		}
	}
	return wrong
}

// checkSizes returns one sentence for each file, function and budget that is too long.
func checkSizes(pkgs []pkg) []string {
	var wrong []string
	core, rest := 0, 0
	for _, p := range pkgs {
		for _, f := range p.files {
			if f.lines >= fileLimit {
				wrong = append(wrong, fmt.Sprintf("%s has %d lines, the limit is %d: it holds more than one idea", f.name, f.lines, fileLimit))
			}
			if f.test {
				continue
			}
			for _, fn := range f.funcs {
				if fn.lines >= funcLimit {
					wrong = append(wrong, fmt.Sprintf("%s: %s has %d lines, the limit is %d: it does more than one thing", f.name, fn.name, fn.lines, funcLimit))
				}
			}
			switch {
			case within(p.path, "internal/testbed"), within(p.path, "bench"): // nobody deploys them
			case within(p.path, "consumer"), within(p.path, "sink"), within(p.path, "internal/message"):
				core += f.code
			default:
				rest += f.code
			}
		}
	}
	if core > coreBudget {
		wrong = append(wrong, fmt.Sprintf("consumer, sink and internal/message have %d lines, the budget is %d: one person must be able to read the way of a record in a day", core, coreBudget))
	}
	if rest > restBudget {
		wrong = append(wrong, fmt.Sprintf("everything else has %d lines, the budget is %d", rest, restBudget))
	}
	return wrong
}
