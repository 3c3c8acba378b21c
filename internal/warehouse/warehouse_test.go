package warehouse

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/message"
)

var update = flag.Bool("update", false, "write the golden files")

// samples are the three routes of the golden files.
func samples() map[string]Spec {
	base := Spec{Project: "example-project", Dataset: "kafka", RetentionDays: DefaultRetentionDays}
	orders, changes, payments := base, base, base
	orders.Topic, orders.Format = "orders", Raw
	changes.Topic, changes.Format = "inventory.changes", EnvelopeBytes
	payments.Topic, payments.Format, payments.RetentionDays, payments.NoCurrent = "pay-events_v2", EnvelopeJSON, 31, true
	return map[string]Spec{"raw": orders, "envelope_bytes": changes, "envelope_json": payments}
}

func TestGolden(t *testing.T) {
	for name, spec := range samples() {
		t.Run(name, func(t *testing.T) {
			got := text(t, spec)
			file := filepath.Join("testdata", name+".sql")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs from what is rendered now; if that is meant, run go test ./internal/warehouse -update and read the difference", file)
			}
			if again := text(t, spec); again != got {
				t.Error("rendering twice gives two texts")
			}
		})
	}
}

func text(t *testing.T, spec Spec, objects ...Object) string {
	t.Helper()
	statements, err := Render(spec, objects...)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range statements {
		if !strings.HasPrefix(s.SQL, "--") || !strings.HasSuffix(s.SQL, ";\n") {
			t.Errorf("%s does not begin with a comment and end with a semicolon and a line break", s.Name)
		}
		b.WriteString(s.SQL + "\n")
	}
	return b.String()
}

func TestOrderOfStatements(t *testing.T) {
	spec := samples()["raw"]
	statements, err := Render(spec, ObjectAudit, ObjectMerge, ObjectRaw)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range statements {
		got = append(got, s.Name)
	}
	want := []string{"raw_table", "merge_procedure", "audit_partitions", "audit_found", "audit_landed", "audit_unmerged", "audit_repeated", "audit_keys", "audit_freshness"}
	if !slices.Equal(got, want) {
		t.Errorf("statements %v, want %v", got, want)
	}
}

// TestEachTemplateIsUsed finds files that no object names.
func TestEachTemplateIsUsed(t *testing.T) {
	all, err := files.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, o := range Objects() {
		used = append(used, templatesOf(o)...)
	}
	for _, f := range all {
		if !slices.Contains(used, strings.TrimSuffix(f.Name(), ".sql.tmpl")) {
			t.Errorf("no object has %s", f.Name())
		}
	}
}

// TestTemplatesSpellNoName holds the templates to the constants of message: a
// name spelt here would stay behind when one changes.
func TestTemplatesSpellNoName(t *testing.T) {
	names := regexp.MustCompile(`\b(kafka_\w+|` + message.AttrIdempotencyKey + `|` + message.ColTombstone + `|` + message.ColHeaders + `)\b`)
	label := "'kafka_topic', {{literal .Label}}"
	all, err := files.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		body, err := files.ReadFile("templates/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if found := names.FindAllString(strings.ReplaceAll(string(body), label, ""), -1); found != nil {
			t.Errorf("%s spells %v", f.Name(), found)
		}
	}
}

// TestAttributesAreTheOnesOfMessages renders the only view that reads
// attributes and compares the names it asks for.
func TestAttributesAreTheOnesOfMessages(t *testing.T) {
	sql := text(t, samples()["raw"], ObjectViews)
	want := []string{
		message.AttrIdempotencyKey, message.AttrKey, message.AttrKeyEncoding, message.AttrOffset, message.AttrGap,
		message.AttrPartition, message.AttrTimestamp, message.AttrTombstone, message.AttrTopic,
		"ordering_key", "orderingKey", // Google's
	}
	var got []string
	for _, m := range regexp.MustCompile(`JSON_VALUE\(attributes, '\$\.([^']+)'\)`).FindAllStringSubmatch(sql, -1) {
		got = append(got, m[1])
		if !regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`).MatchString(m[1]) {
			t.Errorf("path of %q needs quotes: without them it is NULL for ever", m[1])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("attributes read: %v\nwant %v", got, want)
	}
}

func TestRefusedSpecs(t *testing.T) {
	good := samples()["raw"]
	tests := map[string]func(*Spec){
		"project that leaves its quotes": func(s *Spec) { s.Project = "a`; DROP" },
		"dataset with a dash":            func(s *Spec) { s.Dataset = "a-b" },
		"no dataset":                     func(s *Spec) { s.Dataset = "" },
		"topic that leaves its quotes":   func(s *Spec) { s.Topic = "a'b" },
		"no topic":                       func(s *Spec) { s.Topic = "" },
		"no format":                      func(s *Spec) { s.Format = "" },
		"no retention":                   func(s *Spec) { s.RetentionDays = 0 },
		"retention Pub/Sub has not":      func(s *Spec) { s.RetentionDays = 32 },
	}
	for name, spoil := range tests {
		s := good
		spoil(&s)
		if _, err := Render(s); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
}

func TestCheckDataset(t *testing.T) {
	tests := []struct{ in, project, dataset string }{
		{"kafka", "", "kafka"},
		{"example-project.kafka", "example-project", "kafka"},
		{"example.com:old-project.kafka_1", "example.com:old-project", "kafka_1"},
	}
	for _, test := range tests {
		project, dataset, err := CheckDataset(test.in)
		if err != nil || project != test.project || dataset != test.dataset {
			t.Errorf("%s: %q, %q, %v", test.in, project, dataset, err)
		}
	}
	for _, bad := range []string{"", "a-b", "p.d", "example-project.", ".kafka", "example-project.a.b", "a`b", "Example-Project.kafka"} {
		if _, _, err := CheckDataset(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
