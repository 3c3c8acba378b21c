package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/fault"
)

func TestRoot(t *testing.T) {
	for _, test := range []struct {
		arg, want string
		code      int
	}{
		{"chek", `"chek" is not a command; did you mean check?`, fault.CodeUsage},
		{"xyzzy", `"xyzzy" is not a command; see "mskbridge --help"`, fault.CodeUsage},
		{"--version", versionText() + "\n", fault.CodeOK},
	} {
		var out, errs bytes.Buffer
		if code := execute([]string{test.arg}, &out, &errs); code != test.code || !strings.Contains(out.String()+errs.String(), test.want) {
			t.Errorf("%s: exit %d, %s%s", test.arg, code, out.String(), errs.String())
		}
	}
}

// TestReplayUsageNeedsNoCredentials: what cannot be is refused before anybody is
// asked who we are.
func TestReplayUsageNeedsNoCredentials(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
	for name, value := range map[string]string{"BRIDGE_BROKERS": "127.0.0.1:1", "BRIDGE_AUTH": "plaintext", "BRIDGE_TOPICS": "orders", "BRIDGE_PROJECT": "example-project"} {
		t.Setenv(name, value)
	}
	for _, test := range []struct{ name, args, want string }{
		{"unknown route", "--route order --partition 0 --from 1 --to 2", "no route has the topic"},
		{"empty range", "--route orders --partition 0 --from 5 --to 5", "is empty"},
		{"times the wrong way round", "--route orders --since 2026-01-02T00:00:00Z --until 2026-01-01T00:00:00Z", "is empty"},
	} {
		var out, errs bytes.Buffer
		if code := execute(append([]string{"replay"}, strings.Fields(test.args)...), &out, &errs); code != fault.CodeUsage || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%s: exit %d, %s", test.name, code, errs.String())
		}
	}
}
