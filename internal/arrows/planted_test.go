package arrows

import (
	"strings"
	"testing"
)

// TestPlantedImports shows that each kind of wrong import is found and named,
// and that the right ones are not.
func TestPlantedImports(t *testing.T) {
	const bridge = module + "/"
	tests := []struct {
		name, path, imported string
		want                 string // part of the complaint, "" for none
	}{
		{"consumer may know messages", "consumer", bridge + "internal/message", ""},
		{"consumer may know kgo", "consumer", "github.com/twmb/franz-go/pkg/kgo", ""},
		{"consumer must not know sink", "consumer", bridge + "sink", "only cmd knows both"},
		{"sink must not know consumer", "sink", bridge + "consumer", "only cmd knows both"},
		{"sink must not know kgo", "sink", "github.com/twmb/franz-go/pkg/kgo", "belongs to consumer"},
		{"consumer must not know Pub/Sub", "consumer", "cloud.google.com/go/pubsub/v2/apiv1", "Pub/Sub belongs to sink"},
		{"consumer must not know gRPC", "consumer", "google.golang.org/grpc/codes", "gRPC belongs to sink"},
		{"commands must not know kadm", "cmd/mskbridge", "github.com/twmb/franz-go/pkg/kadm", "Inspect and Replay"},
		{"commands may know everything of ours", "cmd/mskbridge", bridge + "internal/testbed/fakekafka", ""},
		{"messages know nobody", "internal/message", bridge + "internal/fault", "pure"},
		{"a fake must not know the bridge", "internal/testbed/fakekafka", bridge + "consumer", "agree with its mistakes"},
		{"fakes may know each other", "internal/testbed/fakekafka", bridge + "internal/testbed/process", ""},
		{"one reader of the environment", "cmd/mskbridge", "github.com/kelseyhightower/envconfig", "reads the environment"},
		{"credentials have one home", "sink", "github.com/aws/aws-sdk-go-v2/config", "one home"},
		{"metrics are not logic", "consumer", "github.com/prometheus/client_golang/prometheus", "never part of the logic"},
		{"a new package needs a line", "internal/helpers", "fmt", "has no arrows"},
		{"a name that only begins alike is another package", "internal/faulty", "fmt", "has no arrows"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(checkArrows([]pkg{{path: test.path, imports: []string{test.imported}}}), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("complaint %q, want %q", got, test.want)
			}
		})
	}
}

func TestPlantedSizes(t *testing.T) {
	many := func(path string, n int, test bool) pkg {
		p := pkg{path: path}
		for range n {
			p.files = append(p.files, file{name: path + "/a.go", lines: 350, code: 300, test: test})
		}
		return p
	}
	tests := []struct {
		name string
		pkgs []pkg
		want string
	}{
		{"core within its budget", []pkg{many("consumer", 12, false), many("sink", 8, false)}, ""},
		{"core over its budget", []pkg{many("consumer", 12, false), many("sink", 8, false), many("internal/message", 1, false)}, "6300 lines, the budget is 6000"},
		{"rest within its budget", []pkg{many("cmd/mskbridge", 30, false)}, ""},
		{"rest over its budget", []pkg{many("cmd/mskbridge", 32, false)}, "9600 lines, the budget is 9500"},
		{"tests are free", []pkg{many("consumer", 100, true)}, ""},
		{"testbed is free", []pkg{many("internal/testbed/fakekafka", 100, false)}, ""},
		{"a long file", []pkg{{path: "sink", files: []file{{name: "sink/a.go", lines: 400}}}}, "sink/a.go has 400 lines"},
		{"a long test file", []pkg{{path: "sink", files: []file{{name: "sink/a_test.go", lines: 400, test: true}}}}, "sink/a_test.go has 400 lines"},
		{"a long function", []pkg{{path: "sink", files: []file{{name: "sink/a.go", lines: 100, funcs: []function{{"run", 60}}}}}}, "run has 60 lines"},
		{"a function just short enough", []pkg{{path: "sink", files: []file{{name: "sink/a.go", lines: 100, funcs: []function{{"run", 59}}}}}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(checkSizes(test.pkgs), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("complaint %q, want %q", got, test.want)
			}
		})
	}
}
