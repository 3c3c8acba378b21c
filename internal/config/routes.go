package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// mostRoutesFile is the largest routes file, in bytes: a thousand routes with
// every field set need a third of it.
const mostRoutesFile = 1 << 20

// mostRoutes is far above what one group of consumers is good for.
const mostRoutes = 2000

// routesFile is the whole YAML document.
type routesFile struct {
	Defaults RouteOptions `yaml:"defaults"`
	Routes   []Route      `yaml:"routes"`
}

// readRoutes returns the resolved routes of the topics list or the file.
func (c *Config) readRoutes(p *problems) []Route {
	var f routesFile
	switch {
	case len(c.Topics) > 0 && c.RoutesFile != "":
		p.add("BRIDGE_TOPICS and BRIDGE_ROUTES_FILE are both set; unset one")
		return nil
	case len(c.Topics) > 0:
		f.Routes = routesOf(c.Topics, p)
	case c.RoutesFile != "":
		raw, err := readFile(c.RoutesFile)
		if err != nil {
			p.add("reading routes file: %v", err)
			return nil
		}
		c.RoutesVersion = versionOf(raw)
		f = parseRoutes(c.RoutesFile, raw, p)
	default:
		p.add("BRIDGE_TOPICS or BRIDGE_ROUTES_FILE is required")
		return nil
	}
	return f.resolve(c.DeadLetterTopic, p)
}

func readFile(path string) ([]byte, error) {
	// Opening a pipe would wait for somebody to write to it.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, mostRoutesFile+1))
	if err == nil && len(raw) > mostRoutesFile {
		err = fmt.Errorf("%s is larger than %v", path, Bytes(mostRoutesFile))
	}
	return raw, err
}

// routesOf reads the entries of BRIDGE_TOPICS, "topic" or "topic=destination".
func routesOf(topics []string, p *problems) []Route {
	var out []Route
	for i, entry := range trimmed(topics) {
		topic, to, has := strings.Cut(entry, "=")
		r := Route{Topic: strings.TrimSpace(topic), Destination: strings.TrimSpace(to), place: fmt.Sprintf("BRIDGE_TOPICS entry %d: ", i+1)}
		switch {
		case entry == "":
			p.add("%sis empty", r.place)
		case has && r.Destination == "":
			p.add("%sno destination after =", r.place)
		default:
			out = append(out, r)
		}
	}
	return out
}

// parseRoutes reads one YAML document strictly: a field that is unknown, given
// twice or of the wrong type is a problem with its line.
func parseRoutes(path string, raw []byte, p *problems) (f routesFile) {
	d := yaml.NewDecoder(bytes.NewReader(raw))
	var doc yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		p.add("%s: %v", path, err)
		return f
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		p.add("%s: more than one YAML document", path)
		return f
	}
	for _, s := range unknownFields(&doc, &f) {
		p.add("%s:%s", path, s)
	}
	if err := doc.Decode(&f); err != nil {
		var e *yaml.TypeError
		if !errors.As(err, &e) {
			e = &yaml.TypeError{Errors: []string{err.Error()}}
		}
		for _, s := range e.Errors {
			p.add("%s: %s", path, yamlProblem(s))
		}
		return routesFile{}
	}
	place(path, &doc, f.Routes)
	if len(f.Routes) == 0 {
		p.add("%s: no routes", path)
	}
	for _, o := range fields(&f.Defaults, "yaml") {
		*p = append(*p, o.check(path+": defaults: ")...)
	}
	f.Defaults.checkValues(path+": defaults: ", p)
	return f
}

// resolve checks each route and fills in what it leaves to the defaults, to
// the environment and to the tags, in this order.
func (f *routesFile) resolve(deadLetter string, p *problems) []Route {
	base := RouteOptions{DeadLetter: deadLetter}
	preset := presets()
	inherit(&base, &preset)
	inherit(&f.Defaults, &base)
	if len(f.Routes) > mostRoutes {
		p.add("%d routes are more than %d; run another bridge with a group of its own", len(f.Routes), mostRoutes)
		return nil
	}
	seen := make(map[string]string, len(f.Routes))
	for i := range f.Routes {
		r := &f.Routes[i]
		here := strings.TrimSuffix(r.place, ": ")
		r.check(p)
		if first, ok := seen[r.Topic]; !ok {
			seen[r.Topic] = here
		} else if r.Topic != "" {
			p.add("%sthe topic already has a route at %s", r.place, first)
		}
		ownRaw := r.Format == FormatRaw && r.Value == ""
		inherit(&r.RouteOptions, &f.Defaults)
		if r.Format == FormatRaw && r.Value == ValueJSON {
			if r.Value = ValueBytes; !ownRaw { // a route may be raw where the defaults are not
				p.add("%svalue json is only for format envelope, and this is raw", r.place)
			}
		}
		if r.OnOversize == OnOversizeStore && r.Store == "" {
			p.add("%son_oversize store needs a store, such as gs://bucket/prefix", r.place)
		}
		if r.DeadLetter == "" {
			r.OnPoison = OnPoisonHold
			if r.OnOversize == OnOversizePark {
				r.OnOversize = OnOversizeHold
			}
			if len(r.Skip) > 0 {
				p.add("%sskip needs a dead-letter topic: that is where the range is recorded", r.place)
			}
		}
	}
	return f.Routes
}

// check reports what is wrong with the route's own fields and settles its
// place and destination.
func (r *Route) check(p *problems) {
	place := r.place
	if r.Topic == "" {
		p.add("%stopic is required", place)
		return
	}
	if err := checkKafkaName(r.Topic); err != nil {
		p.add("%stopic %q: %v", place, r.Topic, err)
		return
	}
	r.place += "route " + r.Topic + ": "
	for _, f := range fields(r, "yaml") {
		*p = append(*p, f.check(r.place)...)
	}
	if r.Destination == "" {
		r.Destination = r.Topic
		if err := checkPubSubName(r.Topic); err != nil {
			p.add("%s%v, so the Kafka name cannot be the destination; say where with to: (BRIDGE_TOPICS: %s=...)", r.place, err, r.Topic)
		}
	} else if err := checkPubSubName(r.Destination); err != nil {
		p.add("%sto %q: %v", r.place, r.Destination, err)
	}
	for _, s := range r.Skip {
		if s.Partition < 0 || s.From < 0 || s.From >= s.To {
			p.add("%sskip {partition: %d, from: %d, to: %d}: want a partition and from below to, which is the first offset to publish again", r.place, s.Partition, s.From, s.To)
		}
	}
	r.RouteOptions.checkValues(r.place, p)
}

// checkValues checks what choices alone cannot.
func (o *RouteOptions) checkValues(where string, p *problems) {
	if o.DeadLetter != "" {
		if err := checkPubSubName(o.DeadLetter); err != nil {
			p.add("%sdead_letter %q: %v", where, o.DeadLetter, err)
		}
	}
	if o.Start != "" && o.Start != StartEarliest && o.Start != StartLatest {
		if at, err := time.Parse(time.RFC3339, o.Start); err != nil {
			p.add("%sstart %q is not earliest, latest or an RFC 3339 time", where, o.Start)
		} else if at.After(time.Now()) {
			p.add("%sstart %s is in the future; use latest", where, o.Start)
		}
	}
	if o.Store != "" {
		if err := checkStore(o.Store); err != nil {
			p.add("%sstore %q: %v", where, o.Store, err)
		}
	}
	if h := o.Headers; h != nil && h.Allow != nil && len(h.Allow) == 0 {
		p.add("%sheaders: allow is empty, which reads as none and as all; use deny: [\"*\"] to send none, or leave it out", where)
	}
	if h := o.Headers; h != nil && slices.Contains(slices.Concat(h.Allow, h.Deny), "") {
		p.add("%sheaders: an empty pattern; * stands for any name", where)
	}
}
