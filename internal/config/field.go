package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// field is one setting of a struct whose tags describe it.
type field struct {
	name    string // BRIDGE_GROUP, or dead_letter
	preset  string // the default, "" for none
	unset   string // in words, what holds without a default
	desc    string
	choices []string // nil: any value
	value   reflect.Value
}

// fields lists the settings of the struct that ptr points to, in order of
// declaration, embedded structs in their place. A name is the part of the tag
// before a comma; fields without one are left out.
func fields(ptr any, tag string) []field {
	var out []field
	v := reflect.ValueOf(ptr).Elem()
	for i := range v.NumField() {
		t := v.Type().Field(i)
		if t.Anonymous {
			out = append(out, fields(v.Field(i).Addr().Interface(), tag)...)
			continue
		}
		name, _, _ := strings.Cut(t.Tag.Get(tag), ",")
		if name == "" {
			continue
		}
		f := field{name: name, preset: t.Tag.Get("default"), unset: t.Tag.Get("unset"), desc: t.Tag.Get("desc"), value: v.Field(i)}
		if s := t.Tag.Get("oneof"); s != "" {
			f.choices = strings.Split(s, ",")
		}
		out = append(out, f)
	}
	return out
}

// text is the value as a user would write it, "" when there is none.
func (f field) text() string {
	if f.preset == "" && f.value.IsZero() {
		return ""
	}
	if list, ok := reflect.TypeAssert[[]string](f.value); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(f.value.Interface())
}

// check refuses a value outside the choices. where says whose setting it is, ""
// or "routes.yaml:3: route orders: ".
func (f field) check(where string) (problems []string) {
	s := f.text()
	if s == "" || f.choices == nil || slices.Contains(f.choices, s) {
		return nil
	}
	return []string{fmt.Sprintf("%s%s %q is not one of %s; did you mean %s?",
		where, f.name, s, strings.Join(f.choices, ", "), nearest(s, f.choices))}
}

// names returns the names of fs in their order.
func names(fs []field) []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.name
	}
	return out
}

// nearest returns the candidate with the fewest edits from s, the first of
// equals. There is at least one candidate.
func nearest(s string, candidates []string) string {
	distance := func(c string) int { return levenshtein.Distance(strings.ToLower(s), strings.ToLower(c), nil) }
	return slices.MinFunc(candidates, func(a, b string) int { return distance(a) - distance(b) })
}

// inherit gives each field of dst that is not set the value it has in src.
func inherit(dst, src *RouteOptions) {
	from := fields(src, "yaml")
	for i, f := range fields(dst, "yaml") {
		if f.value.IsZero() {
			f.value.Set(from[i].value)
		}
	}
}

// presets returns route options with every default of the tags.
func presets() RouteOptions {
	var o RouteOptions
	for _, f := range fields(&o, "yaml") {
		if f.preset != "" {
			f.value.SetString(f.preset)
		}
	}
	return o
}
