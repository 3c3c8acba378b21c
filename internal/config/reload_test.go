package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/fault"
)

func TestReload(t *testing.T) {
	const before = `routes:
  - topic: orders
  - topic: payments
    ordering: partition
`
	for _, tt := range []struct {
		name, file              string
		added, removed, changed []string
		want                    string // of the error
	}{
		{name: "a comment", file: "# new\n\n" + before},
		{name: "a route more", file: before + "  - topic: refunds\n", added: []string{"refunds"}},
		{name: "a route less", file: "routes:\n  - topic: orders\n", removed: []string{"payments"}},
		{name: "another destination", file: before + "    to: pay-events\n", changed: []string{"payments"}},
		{name: "another format", file: before + "    format: envelope\n", changed: []string{"payments"}},
		{name: "defaults for all", file: "defaults: {dead_letter: dead}\n" + before, changed: []string{"orders", "payments"}},
		{
			name: "all at once", file: "routes:\n  - topic: refunds\n  - topic: orders\n    on_poison: hold\n    dead_letter: dead\n",
			added: []string{"refunds"}, removed: []string{"payments"}, changed: []string{"orders"},
		},
		{name: "no routes", file: "routes: []\n", want: "no routes"},
		{name: "nothing", file: "", want: "empty"},
		{name: "half a file", file: before[:len(before)-len("partition\n")] + "\n    to: [", want: "routes.yaml"},
		{name: "a typing error", file: before + "    odering: none\n", want: "ordering"},
		{name: "a dead letter that is a destination", file: before + "    dead_letter: orders\n", want: "destination of route orders"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "routes.yaml")
			write := func(content string) {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(before)
			c, err := New(settings(t, func(s *Settings) { s.Topics, s.RoutesFile = nil, path }))
			if err != nil {
				t.Fatal(err)
			}
			if next, version, err := c.Reload(c.RoutesVersion); next != nil || version != c.RoutesVersion || err != nil {
				t.Errorf("the same file: %v, %q, %v", next, version, err)
			}
			write(tt.file)
			next, version, err := c.Reload(c.RoutesVersion)
			if version == c.RoutesVersion || len(version) != 12 {
				t.Errorf("version %q, before %q", version, c.RoutesVersion)
			}
			if tt.want != "" {
				if next != nil || err == nil || !strings.Contains(err.Error(), tt.want) || fault.Code(err) != fault.CodeUsage {
					t.Errorf("%v, %v, want %q", next, err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			added, removed, changed := c.Changes(next)
			if !slices.Equal(added, tt.added) || !slices.Equal(removed, tt.removed) || !slices.Equal(changed, tt.changed) {
				t.Errorf("added %v, removed %v, changed %v", added, removed, changed)
			}
			if next.RoutesVersion != version || next.Sizes != c.Sizes || !strings.HasPrefix(next.Routes[0].Destination, "projects/proj/topics/") {
				t.Errorf("%+v", next)
			}
		})
	}
}

func TestReloadOfAFileThatIsGone(t *testing.T) {
	c := &Config{Settings: Settings{RoutesFile: filepath.Join(t.TempDir(), "routes.yaml")}}
	if next, version, err := c.Reload("before"); next != nil || version != "" || err == nil || !strings.Contains(err.Error(), "reading routes file") {
		t.Errorf("%v, %q, %v", next, version, err)
	}
}
