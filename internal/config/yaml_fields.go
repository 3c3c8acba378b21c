package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unknownFields walks a document beside the struct that ptr points to and
// returns "line: message" for every key that no field has and every list entry
// that is empty.
func unknownFields(n *yaml.Node, ptr any) []string {
	return walk(n, reflect.TypeOf(ptr).Elem())
}

// walk goes down only where node and type agree, so an alias that contains
// itself cannot keep it.
func walk(n *yaml.Node, t reflect.Type) (out []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.AliasNode:
		return walk(n.Alias, t)
	case n.Kind == yaml.DocumentNode:
		return walk(n.Content[0], t)
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.Content {
			if item.Tag == "!!null" { // the decoder would leave it out in silence
				out = append(out, fmt.Sprintf("%d: empty entry in a list", item.Line))
			}
			out = append(out, walk(item, t.Elem())...)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		known := yamlFields(t)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch ft, ok := known.types[key.Value]; {
			case ok:
				out = append(out, walk(value, ft)...)
			case key.Tag == "!!merge":
				out = append(out, fmt.Sprintf("%d: merge keys are not supported; use defaults", key.Line))
			default:
				out = append(out, fmt.Sprintf("%d: %q is not a field; did you mean %s?", key.Line, key.Value, nearest(key.Value, known.names)))
			}
		}
	}
	return out
}

var yamlMismatch = regexp.MustCompile("^(line [0-9]+): cannot unmarshal !!([a-z]+)(?: `(?s:(.*))`)? into (.+)$")

// yamlProblem says in a user's words what the decoder says of a value whose
// type does not fit.
func yamlProblem(s string) string {
	m := yamlMismatch.FindStringSubmatch(s)
	if m == nil {
		return s
	}
	got := map[string]string{"seq": "a list", "map": "a group of fields", "str": "text", "int": "a number", "float": "a number", "bool": "true or false"}[m[2]]
	if m[3] != "" {
		got = fmt.Sprintf("%q", m[3])
	}
	want := "a group of fields"
	switch {
	case strings.HasPrefix(m[4], "["):
		want = "a list"
	case strings.HasPrefix(m[4], "int"):
		want = "a whole number"
	case m[4] == "string":
		want = "text"
	}
	return fmt.Sprintf("%s: %s is not %s", m[1], cmp.Or(got, m[2]), want)
}

// fieldSet is what a struct may contain in YAML.
type fieldSet struct {
	names []string // in order of declaration
	types map[string]reflect.Type
}

func yamlFields(t reflect.Type) fieldSet {
	s := fieldSet{types: map[string]reflect.Type{}}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
			s.names = append(s.names, name)
			s.types[name] = f.Type
		}
	}
	return s
}

// place tells each route where in the file it stands.
func place(path string, doc *yaml.Node, routes []Route) {
	for i := range routes {
		routes[i].place = path + ": "
	}
	root := resolveAlias(doc.Content[0])
	for i := 0; i+1 < len(root.Content); i += 2 {
		if list := resolveAlias(root.Content[i+1]); root.Content[i].Value == "routes" && len(list.Content) == len(routes) {
			for j, item := range list.Content {
				routes[j].place = fmt.Sprintf("%s:%d: ", path, item.Line)
			}
		}
	}
}

func resolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
