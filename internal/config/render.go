package config

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"
)

// Render shows the effective configuration for people: every setting that has
// a value with where it comes from, the derived sizes, and the resolved routes
// in the form of a routes file. Secrets show as "(set)".
func (c *Config) Render() (string, error) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "# settings")
	for _, f := range fields(&c.Settings, "envconfig") {
		s := f.text()
		if s == "" {
			s = "(" + f.unset + ")"
		}
		fmt.Fprintf(w, "%s\t%s\n", f.name, s)
	}
	if err := w.Flush(); err != nil {
		return "", fmt.Errorf("aligning settings: %w", err)
	}
	b.WriteString("\n# derived from memory and profile\n" + c.Sizes.Table() + "\n# routes\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(struct{ Routes []Route }{c.Routes}); err != nil {
		return "", fmt.Errorf("encoding routes: %w", err)
	}
	return b.String(), e.Close()
}

// Table is the configuration reference in Markdown, made from the tags: one
// table of variables and one of the fields of a route. The README holds a copy.
func Table() string {
	var b strings.Builder
	table := func(head string, fs []field) {
		fmt.Fprintf(&b, "| %s | default | meaning |\n|---|---|---|\n", head)
		for _, f := range fs {
			preset := f.unset
			if f.preset != "" {
				preset = "`" + f.preset + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", f.name, preset, f.desc, f.options())
		}
	}
	table("variable", fields(&Settings{}, "envconfig"))
	b.WriteString("\n")
	table("route field", fields(&Route{}, "yaml"))
	return b.String()
}

// options lists the choices in Markdown.
func (f field) options() string {
	if f.choices == nil {
		return ""
	}
	return ": `" + strings.Join(f.choices, "`, `") + "`"
}
