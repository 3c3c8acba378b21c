// Package config turns the environment and the routes file into one checked
// Config. It is the only reader of the environment, dials nothing, and finds
// every problem it can before it gives up: an error lists them on one line, in
// the order of the environment and then of the file, and carries exit code 2.
//
// What it returns is plain data, safe for concurrent reading.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/kelseyhightower/envconfig"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// prefix marks the names that are ours: an unknown one is an error.
const prefix = "BRIDGE_"

// Config is everything that a run needs to know.
type Config struct {
	// Settings hold the effective values, defaults included.
	Settings
	// Routes are in the order in which they were given, at least one.
	Routes []Route
	// RoutesVersion names the content of the routes file; "" without one.
	RoutesVersion string
	// Sizes are derived from Memory, Profile and the number of brokers.
	Sizes Sizes
}

// Load reads the environment and checks it: Read, then New. What it settled as
// the region of the cluster it puts into AWS_REGION: that is where the signer
// of auth iam looks when a broker's name does not tell.
func Load() (*Config, error) {
	s, err := Read()
	if err != nil {
		return nil, err
	}
	c, err := New(s)
	if err != nil || c.Region == "" {
		return c, err
	}
	if err := os.Setenv("AWS_REGION", c.Region); err != nil {
		return nil, fmt.Errorf("setting AWS_REGION: %w", err)
	}
	return c, nil
}

// Read takes the settings from the environment and applies defaults. It
// refuses unknown names with our prefix and values of the wrong type; whether
// the settings make sense together is for New to say. A variable that is set
// but empty counts as not set, since compose files and Terraform find it hard
// to leave one out; it is removed from the environment.
func Read() (Settings, error) {
	var s Settings
	all := fields(&s, "envconfig")
	known := names(all)
	var p problems
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		switch ours := slices.Contains(known, name); {
		case !ours && strings.HasPrefix(name, prefix):
			p.add("%s is not a setting; did you mean %s?", name, nearest(name, known))
		case ours && value == "":
			if err := os.Unsetenv(name); err != nil {
				return s, fmt.Errorf("removing empty %s: %w", name, err)
			}
		case ours:
			p.addUnusual(name, value, all)
		}
	}
	if err := envconfig.Process("", &s); err != nil {
		if wrong := typeProblem(err); !slices.Contains(p, wrong) {
			p = append(p, wrong)
		}
	}
	return s, p.err()
}

// kinds say in a user's words what a value of a Go type is.
func kinds() map[string]string {
	return map[string]string{
		"bool": "true or false", "int": "a whole number", "uint16": "a port number",
		"time.Duration": "a duration such as 20s", "config.Bytes": "a size such as 256MiB",
		"slog.Level": "one of debug, info, warn, error",
	}
}

// typeProblem says in a user's words what envconfig says in a programmer's.
func typeProblem(err error) string {
	var e *envconfig.ParseError
	if !errors.As(err, &e) {
		return err.Error()
	}
	return fmt.Sprintf("%s %q is not %s", e.KeyName, e.Value, kinds()[e.TypeName])
}

// addUnusual adds a value that Go would read and a user would not mean: 0x1F90
// and 1_000 as numbers, info+3 as a level.
func (p *problems) addUnusual(name, value string, all []field) {
	usual := map[string]*regexp.Regexp{"int": wholeNumber, "uint16": wholeNumber, "slog.Level": logLevel}
	for _, f := range all {
		kind := f.value.Type().String()
		if form := usual[kind]; f.name == name && form != nil && !form.MatchString(value) {
			p.add("%s %q is not %s", name, value, kinds()[kind])
		}
	}
}

var (
	wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	logLevel    = regexp.MustCompile(`^(?i)(debug|info|warn|error)$`)
)

// New checks the settings, reads the routes file where one is named and
// derives the rest. Destinations are full names afterwards, unless
// NeedsProject says that the project is still to be found.
func New(s Settings) (*Config, error) { return build(s, containerLimit()) }

// build is New in a container with the given memory limit, 0 for none.
func build(s Settings, limit Bytes) (*Config, error) {
	var p problems
	c := &Config{Settings: s}
	c.Project = cmp.Or(s.Project, s.CloudProject)
	c.checkSettings(&p)
	memory, err := processMemory(s.Memory, limit)
	if err == nil {
		c.Memory = memory
		c.Sizes, err = DeriveSizes(memory, s.Profile, len(s.Brokers))
	}
	if err != nil {
		p.add("%v", err)
	}
	c.Routes = c.readRoutes(&p)
	if len(p) == 0 {
		c.qualify(&p)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// problems collects what is wrong, one clause each.
type problems []string

// mostProblems and mostLine, in bytes, bound the length of the line.
const (
	mostProblems = 20
	mostLine     = 8 << 10
)

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

// err joins the problems on one line, nil for none.
func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	if n := len(p) - mostProblems; n > 0 {
		p = append(p[:mostProblems:mostProblems], fmt.Sprintf("and %d more", n))
	}
	line := strings.Join(p, "; ")
	if len(line) > mostLine {
		line = strings.ToValidUTF8(line[:mostLine], "") + "..."
	}
	return fault.Exit(fault.CodeUsage, errors.New(strings.NewReplacer("\n", " ", "\r", " ").Replace(line)))
}
