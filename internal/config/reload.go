package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// versionOf names a content: 12 hexadecimal digits of its SHA-256.
func versionOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:6])
}

// Reload reads the routes file again and checks all of it against the settings
// of c, which stay. It returns the version of what it found, also beside an
// error; "" is a file that cannot be read. When that is seen, it looks no
// further and returns a nil Config. c is not changed.
func (c *Config) Reload(seen string) (next *Config, version string, err error) {
	raw, err := readFile(c.RoutesFile)
	if err != nil {
		return nil, "", fault.Exit(fault.CodeUsage, fmt.Errorf("reading routes file: %w", err))
	}
	if version = versionOf(raw); version == seen {
		return nil, version, nil
	}
	var p problems
	next = &Config{Settings: c.Settings, Sizes: c.Sizes, RoutesVersion: version}
	f := parseRoutes(c.RoutesFile, raw, &p)
	next.Routes = f.resolve(c.DeadLetterTopic, &p)
	if len(p) == 0 {
		next.qualify(&p)
	}
	if err := p.err(); err != nil {
		return nil, version, err
	}
	return next, version, nil
}

// Changes returns the topics of routes that next adds to those of c, takes away
// and has otherwise.
func (c *Config) Changes(next *Config) (added, removed, changed []string) {
	before := make(map[string]Route, len(c.Routes))
	for _, r := range c.Routes {
		r.place = ""
		before[r.Topic] = r
	}
	for _, r := range next.Routes {
		r.place = ""
		switch was, is := before[r.Topic]; {
		case !is:
			added = append(added, r.Topic)
		case !reflect.DeepEqual(was, r):
			changed = append(changed, r.Topic)
		}
		delete(before, r.Topic)
	}
	for _, r := range c.Routes {
		if _, left := before[r.Topic]; left {
			removed = append(removed, r.Topic)
		}
	}
	return added, removed, changed
}
