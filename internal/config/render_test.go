package config

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write generated parts of documents")

const (
	tableBegin = "<!-- config:begin -->\n"
	tableEnd   = "<!-- config:end -->"
)

// TestReadmeTable checks that the README's reference is the one of the tags.
func TestReadmeTable(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), tableBegin)
	old, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("README.md lacks the lines %q and %q around the configuration table", strings.TrimSpace(tableBegin), tableEnd)
	}
	want := "\n" + Table() + "\n"
	if old == want {
		return
	}
	if !*update {
		t.Fatal("README.md does not have the configuration table of internal/config: run `make docs` (go test ./internal/config -run TestReadmeTable -update)")
	}
	if err := os.WriteFile(path, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestContract pins the names of design.md 9: documents and modules of others
// use them.
func TestContract(t *testing.T) {
	env := names(fields(&Settings{}, "envconfig"))
	for n := range strings.FieldsSeq(`BRIDGE_BROKERS BRIDGE_TOPICS BRIDGE_ROUTES_FILE BRIDGE_CLUSTER BRIDGE_GROUP BRIDGE_PROJECT
		BRIDGE_DEAD_LETTER_TOPIC BRIDGE_AUTH BRIDGE_ROLE_ARN BRIDGE_REGION BRIDGE_SCRAM_USER BRIDGE_SCRAM_PASSWORD
		BRIDGE_SCRAM_PASSWORD_FILE BRIDGE_TLS_CA_FILE BRIDGE_TLS_CERT_FILE BRIDGE_TLS_KEY_FILE BRIDGE_TLS_SERVER_NAME
		BRIDGE_SCRAM_MECHANISM BRIDGE_ALLOW_PLAINTEXT BRIDGE_DIAL_ALLOW BRIDGE_SESSION_TIMEOUT BRIDGE_PUBSUB_ENDPOINT
		BRIDGE_PUBLISH_CONNECTIONS BRIDGE_MEMORY BRIDGE_PROFILE BRIDGE_LOG_LEVEL PORT PUBSUB_EMULATOR_HOST GOOGLE_CLOUD_PROJECT`) {
		if !slices.Contains(env, n) {
			t.Errorf("no field for %s", n)
		}
	}
	route := names(fields(&Route{}, "yaml"))
	for n := range strings.FieldsSeq("topic to dead_letter ordering on_poison on_oversize format value store start headers skip") {
		if !slices.Contains(route, n) {
			t.Errorf("no route field %s", n)
		}
	}
	for _, f := range append(fields(&Settings{}, "envconfig"), fields(&Route{}, "yaml")...) {
		if f.desc == "" || f.preset == "" && f.unset == "" {
			t.Errorf("%s does not say what it means and what holds without it", f.name)
		}
	}
}

func TestRender(t *testing.T) {
	c, err := fromFile(t, "routes:\n  - {topic: orders, to: pay, ordering: partition}\n", func(s *Settings) {
		s.Memory = 256 * mib
		s.DeadLetterTopic = "dead"
	})
	if err != nil {
		t.Fatal(err)
	}
	c.ScramPassword = NewSecret(canary)
	out, err := c.Render()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"BRIDGE_GROUP                mskbridge\n",
		"BRIDGE_SCRAM_PASSWORD       (set)\n",
		"BRIDGE_SCRAM_USER           (none)\n",
		"BRIDGE_SESSION_TIMEOUT      20s\n",
		"BRIDGE_MEMORY               256MiB\n",
		"window           32MiB",
		"routes:\n  - topic: orders\n    to: projects/proj/topics/pay\n    dead_letter: projects/proj/topics/dead\n    ordering: partition\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if strings.Contains(out, canary) {
		t.Error("secret shows")
	}
	if t.Failed() {
		t.Log(out)
	}
	// What is rendered is a routes file again.
	_, routes, _ := strings.Cut(out, "# routes\n")
	again, err := fromFile(t, routes, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Routes[0].Destination != c.Routes[0].Destination {
		t.Errorf("routes do not survive: %+v", again.Routes)
	}
}
