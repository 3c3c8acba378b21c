package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fromFile builds a Config from the given routes file.
func fromFile(t *testing.T, yaml string, change func(*Settings)) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "routes.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return build(settings(t, func(s *Settings) {
		s.Topics, s.RoutesFile = nil, path
		if change != nil {
			change(s)
		}
	}), 0)
}

func TestRoutesFileRefuses(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		want       []string
	}{
		{"empty", "", []string{"routes.yaml: it is empty"}},
		{"headers that allow none or all", "routes: [{topic: abc, headers: {allow: []}}]", []string{"allow is empty"}},
		{"more routes than a group is good for", "routes: [" + strings.Repeat("{topic: abc},", 2001) + "]", []string{"2001 routes are more than 2000"}},
		{"comment only", "# nothing\n", []string{"routes.yaml: it is empty"}},
		{"no routes", "defaults: {ordering: none}\n", []string{"no routes"}},
		{"syntax", "routes:\n  - topic: [\n", []string{"routes.yaml: yaml: line"}},
		{"two documents", "routes: [{topic: abc}]\n---\nroutes: []\n", []string{"more than one YAML document"}},
		{"a list", "- topic: abc\n", []string{"line 1: a list is not a group of fields"}},
		{"unknown top field", "route:\n  - topic: abc\n", []string{`routes.yaml:1: "route" is not a field; did you mean routes?`}},
		{"unknown route field", "routes:\n  - topic: abc\n    dead_leter: xyz\n", []string{`routes.yaml:3: "dead_leter" is not a field; did you mean dead_letter?`}},
		{"unknown default", "defaults: {topic: x}\nroutes: [{topic: abc}]\n", []string{`routes.yaml:1: "topic" is not a field`}},
		{"unknown nested field", "routes:\n  - topic: abc\n    headers: {denny: [x]}\n", []string{"did you mean deny?"}},
		{"unknown field behind an alias", "routes:\n  - &a {topic: abc, tpoic: x}\n  - *a\n", []string{"did you mean topic?"}},
		{"merge key", "routes:\n  - &a {topic: abc}\n  - {<<: *a, topic: def}\n", []string{"routes.yaml:3: merge keys are not supported"}},
		{"field twice", "routes:\n  - topic: abc\n    topic: def\n", []string{"line 3", "already defined"}},
		{"wrong type", "routes:\n  - topic: {a: b}\n", []string{"line 2: a group of fields is not text"}},
		{"a text for a list", "routes: abc\n", []string{`line 1: "abc" is not a list`}},
		{"a text for a number", "routes: [{topic: abc, dead_letter: dead, skip: [{partition: x, from: 1, to: 2}]}]\n", []string{`line 1: "x" is not a whole number`}},
		{"null route", "routes:\n  - topic: abc\n  -\n", []string{"routes.yaml:3: empty entry"}},
		{"no topic", "routes:\n  - to: abc\n", []string{"routes.yaml:2: topic is required"}},
		{"choice", "routes:\n  - topic: abc\n    ordering: partitions\n", []string{`routes.yaml:2: route abc: ordering "partitions" is not one of none, partition, key; did you mean partition?`}},
		{"choice in defaults", "defaults: {on_poison: drop}\nroutes: [{topic: abc}]\n", []string{"defaults: on_poison", "did you mean"}},
		{"dead letter in defaults", "defaults: {dead_letter: dl}\nroutes: [{topic: abc}]\n", []string{"defaults: dead_letter", "3 to 255"}},
		{"dead letter in route", "routes: [{topic: abc, dead_letter: 1abc}]\n", []string{"route abc: dead_letter", "starts with a letter"}},
		{"start", "routes: [{topic: abc, start: yesterday}]\n", []string{"not earliest, latest or an RFC 3339 time"}},
		{"start to come", "routes: [{topic: abc, start: '2999-01-01T00:00:00Z'}]\n", []string{"start 2999-01-01T00:00:00Z is in the future; use latest"}},
		{"duplicate", "routes:\n  - topic: abc\n  - topic: abd\n  - topic: abc\n    to: xyz\n", []string{"routes.yaml:4: route abc: the topic already has a route at", "routes.yaml:2"}},
		{"oversize store without a store", "routes: [{topic: abc, on_oversize: store}]\n", []string{"route abc: on_oversize store needs a store"}},
		{"store elsewhere", "routes: [{topic: abc, store: 'http://b/p'}]\n", []string{`store "http://b/p": begins with none of gs://, s3:// and file://`}},
		{"store in memory", "routes: [{topic: abc, store: 'mem://b'}]\n", []string{"begins with none of"}},
		{"store without a bucket", "defaults: {store: 'gs:///p'}\nroutes: [{topic: abc}]\n", []string{"defaults: store", "names no bucket"}},
		{"store with a query", "routes: [{topic: abc, store: 'gs://b/p?x=y'}]\n", []string{"more than a bucket and a prefix"}},
		{"store in a relative folder", "routes: [{topic: abc, store: 'file://a/b'}]\n", []string{"its absolute path"}},
		{"store too long", "routes: [{topic: abc, store: 'gs://b/" + strings.Repeat("p", 512) + "'}]\n", []string{"more than 512 bytes"}},
		{"empty pattern", "routes: [{topic: abc, headers: {deny: ['']}}]\n", []string{"route abc: headers: an empty pattern"}},
		{"json without an envelope", "routes: [{topic: abc, value: json}]\n", []string{"route abc: value json is only for format envelope, and this is raw"}},
		{"json for all without an envelope", "defaults: {value: json}\nroutes: [{topic: abc}]\n", []string{"route abc: value json is only for format envelope"}},
		{"json and raw in one route", "defaults: {format: envelope}\nroutes: [{topic: abc, format: raw, value: json}]\n", []string{"route abc: value json is only for format envelope"}},
		{"skip without a dead-letter topic", "routes: [{topic: abc, skip: [{partition: 3, from: 100, to: 120}]}]\n", []string{"route abc: skip needs a dead-letter topic"}},
		{"skip of nothing", "routes: [{topic: abc, dead_letter: dead, skip: [{partition: 3, from: 120, to: 120}]}]\n", []string{"from: 120, to: 120", "from below to"}},
		{"two routes wrong", "routes:\n  - topic: abc\n    format: xml\n  - topic: ab\n", []string{"routes.yaml:2: route abc: format", "routes.yaml:4: route ab: a Pub/Sub topic id has 3 to 255"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := fromFile(t, c.yaml, nil)
			wantErr(t, err, c.want...)
		})
	}
}

func TestRouteBeatsDefaultsBeatsEnvironment(t *testing.T) {
	c, err := fromFile(t, `
defaults: {ordering: partition}
routes:
  - topic: one
  - {topic: two, ordering: none, dead_letter: own, on_poison: hold}
`, func(s *Settings) { s.DeadLetterTopic = "env" })
	if err != nil {
		t.Fatal(err)
	}
	one, two := c.Routes[0], c.Routes[1]
	if one.Ordering != OrderingPartition || one.DeadLetter != "projects/proj/topics/env" || one.OnPoison != OnPoisonPark {
		t.Errorf("route one: %+v", one)
	}
	if two.Ordering != OrderingNone || two.DeadLetter != "projects/proj/topics/own" || two.OnPoison != OnPoisonHold {
		t.Errorf("route two: %+v", two)
	}
}

func TestOversizeAndHeaders(t *testing.T) {
	c, err := fromFile(t, `
defaults: {store: "gs://bucket/prefix", headers: {deny: ["internal-*"]}}
routes:
  - {topic: one, ordering: key, on_oversize: store}
  - {topic: two, dead_letter: dead, headers: {allow: [a, "b*"]}}
  - {topic: three, store: "s3://other?region=eu-west-1", on_oversize: hold}
  - {topic: four}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	type got struct{ ordering, oversize, store, headers string }
	for i, want := range []got{
		{OrderingKey, OnOversizeStore, "gs://bucket/prefix", "{[] [internal-*]}"},
		{OrderingNone, OnOversizePark, "gs://bucket/prefix", "{[a b*] []}"},
		{OrderingNone, OnOversizeHold, "s3://other?region=eu-west-1", "{[] [internal-*]}"},
		{OrderingNone, OnOversizeHold, "gs://bucket/prefix", "{[] [internal-*]}"},
	} {
		r := c.Routes[i]
		if g := (got{r.Ordering, r.OnOversize, r.Store, fmt.Sprint(*r.Headers)}); g != want {
			t.Errorf("route %s: %+v, want %+v", r.Topic, g, want)
		}
	}
}

func TestFormats(t *testing.T) {
	c, err := fromFile(t, `
defaults: {format: envelope, value: json}
routes:
  - topic: one
  - {topic: two, value: bytes}
  - {topic: three, format: raw}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"envelope json", "envelope bytes", "raw bytes"} {
		if r := c.Routes[i]; r.Format+" "+r.Value != want {
			t.Errorf("route %s: %s %s, want %s", r.Topic, r.Format, r.Value, want)
		}
	}
}

func TestRoutesFileTooLarge(t *testing.T) {
	_, err := fromFile(t, "routes: [{topic: abc}]\n#"+strings.Repeat("x", mostRoutesFile), nil)
	wantErr(t, err, "larger than 1MiB")
}

// A pipe or a folder is refused before it is opened: that could wait for ever.
func TestRoutesFileThatIsNoFile(t *testing.T) {
	_, err := New(settings(t, func(s *Settings) { s.Topics, s.RoutesFile = nil, t.TempDir() }))
	wantErr(t, err, "is not a regular file")
}

// FuzzRoutes holds that any file either is refused on one line or gives
// routes that keep every rule: no panic, no route with a hole in it.
func FuzzRoutes(f *testing.F) {
	for _, name := range []string{"routes.yaml", "routes-full.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte("routes: &r [*r, {topic: abc}]"))
	f.Add([]byte("routes: [{topic: abc, headers: {allow: [a]}, skip: [{from: 1}]}]"))
	f.Add([]byte("? {a: b}\n: c\nroutes: !!set {a, b}"))
	f.Add([]byte("--- \n...\n# x"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p problems
		file := parseRoutes("routes.yaml", raw, &p)
		routes := file.resolve("dead-letters", &p)
		c := &Config{Settings: Settings{Project: "proj"}, Routes: routes}
		if len(p) == 0 {
			c.qualify(&p)
		}
		if err := p.err(); err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("error is not one line: %q", err)
			}
			return
		}
		seen := map[string]bool{}
		for _, r := range c.Routes {
			if seen[r.Topic] || checkKafkaName(r.Topic) != nil || checkPubSubName(r.Destination) != nil || !isFullName(r.Destination) ||
				!isFullName(r.DeadLetter) || r.DeadLetter == r.Destination {
				t.Errorf("route slipped through: %+v", r)
			}
			seen[r.Topic] = true
			for _, o := range fields(&r, "yaml") {
				if len(o.check("")) > 0 || o.preset != "" && o.text() == "" {
					t.Errorf("%s is %q", o.name, o.text())
				}
			}
		}
		if len(c.Routes) == 0 {
			t.Error("no routes and no problem")
		}
	})
}
