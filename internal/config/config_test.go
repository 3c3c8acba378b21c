package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// settings returns what Read gives for a minimal plaintext bridge, changed.
func settings(t *testing.T, change func(*Settings)) Settings {
	t.Helper()
	clearEnv(t)
	s, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	s.Brokers = []string{"127.0.0.1:9092"}
	s.Topics = []string{"orders"}
	s.Project = "proj"
	s.Auth = "plaintext"
	if change != nil {
		change(&s)
	}
	return s
}

// clearEnv hides the settings of whoever runs the tests: empty is not set.
func clearEnv(t *testing.T) {
	t.Helper()
	for _, n := range names(fields(&Settings{}, "envconfig")) {
		t.Setenv(n, "") // so that the old value comes back
		os.Unsetenv(n)
	}
}

// wantErr checks that err is one line, exits 2 and has every part.
func wantErr(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	if fault.Code(err) != fault.CodeUsage {
		t.Errorf("exit code %d, want %d", fault.Code(err), fault.CodeUsage)
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("error is not one line: %q", err)
	}
	for _, s := range parts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q lacks %q", err, s)
		}
	}
}

func TestReadDefaults(t *testing.T) {
	clearEnv(t)
	t.Setenv("BRIDGE_BROKERS", "a:9092,b:9092")
	t.Setenv("BRIDGE_GROUP", "") // empty is not set
	t.Setenv("BRIDGE_PUBLISH_CONNECTIONS", "")
	t.Setenv("PORT", "")
	t.Setenv("BRIDGE_MEMORY", "256MiB")
	t.Setenv("BROKERS", "wrong:1") // the bare name means nothing
	s, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Brokers) != 2 || s.Brokers[1] != "b:9092" {
		t.Errorf("brokers %q", s.Brokers)
	}
	if s.Group != "mskbridge" || s.Cluster != "msk" || s.Auth != "iam" || s.PublishConnections != 4 ||
		s.SessionTimeout != 20*time.Second || s.Profile != "balanced" || s.Port != 8080 || s.Memory != 256*mib {
		t.Errorf("defaults not applied: %+v", s)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, variable, value string
		want                  []string
	}{
		{"unknown name", "BRIDGE_TOPIC", "x", []string{"BRIDGE_TOPIC is not a setting", "did you mean BRIDGE_TOPICS?"}},
		{"unknown name far off", "BRIDGE_SCRAM_PASWORD", "hunter2", []string{"did you mean BRIDGE_SCRAM_PASSWORD?"}},
		{"unknown and empty", "BRIDGE_GRUOP", "", []string{"did you mean BRIDGE_GROUP?"}},
		{"duration", "BRIDGE_SESSION_TIMEOUT", "20", []string{"BRIDGE_SESSION_TIMEOUT", "a duration such as 20s"}},
		{"number", "BRIDGE_PUBLISH_CONNECTIONS", "four", []string{"a whole number"}},
		{"bool", "BRIDGE_ALLOW_PLAINTEXT", "maybe", []string{"true or false"}},
		{"size", "BRIDGE_MEMORY", "-5MiB", []string{"a size such as 256MiB"}},
		{"size zero", "BRIDGE_MEMORY", "0", []string{"a size such as 256MiB"}},
		{"level", "BRIDGE_LOG_LEVEL", "loud", []string{"debug, info, warn, error"}},
		{"level between levels", "BRIDGE_LOG_LEVEL", "INFO+3", []string{"debug, info, warn, error"}},
		{"port", "PORT", "70000", []string{"a port number"}},
		{"port as a programmer writes it", "PORT", "0x1F90", []string{"a port number"}},
		{"number as a programmer writes it", "BRIDGE_PUBLISH_CONNECTIONS", "1_0", []string{"a whole number"}},
		{"number with a leading zero", "BRIDGE_PUBLISH_CONNECTIONS", "010", []string{"a whole number"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clearEnv(t)
			t.Setenv(c.variable, c.value)
			_, err := Read()
			wantErr(t, err, c.want...)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("value of an unknown variable in %q", err)
			}
		})
	}
}

func TestReadKnowsEveryName(t *testing.T) {
	clearEnv(t)
	for _, f := range fields(&Settings{}, "envconfig") {
		value := f.preset
		if value == "" {
			value = "256" // also a size
		}
		t.Setenv(f.name, value)
	}
	if _, err := Read(); err != nil {
		t.Error(err)
	}
}

func TestNothingSet(t *testing.T) {
	clearEnv(t)
	_, err := Load()
	wantErr(t, err, "BRIDGE_BROKERS is required", "BRIDGE_TOPICS or BRIDGE_ROUTES_FILE is required")
	if strings.Contains(err.Error(), "BRIDGE_REGION") {
		t.Errorf("%q asks for what the brokers' names may say", err)
	}
}

func TestNewRefuses(t *testing.T) {
	long := strings.Repeat("x", 250)
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   []string
	}{
		{"no brokers", func(s *Settings) { s.Brokers = nil }, []string{"BRIDGE_BROKERS is required"}},
		{"broker without port", func(s *Settings) { s.Brokers = []string{"127.0.0.1"} }, []string{`"127.0.0.1", which is not host:port`}},
		{"broker port 0", func(s *Settings) { s.Brokers = []string{"127.0.0.1:0"} }, []string{"not host:port"}},
		{"broker with scheme", func(s *Settings) { s.Brokers = []string{"http://127.0.0.1:9092"} }, []string{"not host:port"}},
		{"empty broker entry", func(s *Settings) { s.Brokers = []string{"127.0.0.1:9092", ""} }, []string{`""`}},
		{"both topics and file", func(s *Settings) { s.RoutesFile = "x" }, []string{"both set"}},
		{"no topics", func(s *Settings) { s.Topics = nil }, []string{"is required"}},
		{"missing file", func(s *Settings) { s.Topics, s.RoutesFile = nil, "/nowhere/routes.yaml" }, []string{"reading routes file", "/nowhere/routes.yaml"}},
		{"cluster", func(s *Settings) { s.Cluster = "Prod_1" }, []string{`BRIDGE_CLUSTER "Prod_1"`}},
		{"cluster too long", func(s *Settings) { s.Cluster = strings.Repeat("a", 64) }, []string{"BRIDGE_CLUSTER"}},
		{"group", func(s *Settings) { s.Group = "a b" }, []string{"BRIDGE_GROUP"}},
		{"project", func(s *Settings) { s.Project = "a/b" }, []string{`project "a/b"`}},
		{"dead letter", func(s *Settings) { s.DeadLetterTopic = "dl" }, []string{"BRIDGE_DEAD_LETTER_TOPIC", "3 to 255"}},
		{"dataset", func(s *Settings) { s.Dataset = "a-b" }, []string{`BRIDGE_DATASET "a-b"`, "PROJECT.DATASET"}},
		{"dataset's project", func(s *Settings) { s.Dataset = "Proj.kafka" }, []string{"BRIDGE_DATASET"}},
		{"dataset that leaves its quotes", func(s *Settings) { s.Dataset = "proj-1.a`b" }, []string{"BRIDGE_DATASET"}},
		{"BigQuery emulator", func(s *Settings) { s.BigQueryEmulator = "http://x:1" }, []string{"BIGQUERY_EMULATOR_HOST"}},
		{"session short", func(s *Settings) { s.SessionTimeout = time.Second }, []string{"between 6s and 30m"}},
		{"connections", func(s *Settings) { s.PublishConnections = 0 }, []string{"between 1 and 64"}},
		{"memory floor", func(s *Settings) { s.Memory = 32 * mib }, []string{"memory of 32MiB (BRIDGE_MEMORY, else the container's limit) is below 48MiB"}},
		{"memory above container", func(s *Settings) { s.Memory = 2 << 30 }, []string{"BRIDGE_MEMORY 2GiB is more than the container's limit of 1GiB"}},
		{"profile", func(s *Settings) { s.Profile = "latnecy" }, []string{"BRIDGE_PROFILE", "did you mean latency?"}},
		{"auth unknown", func(s *Settings) { s.Auth = "tlss" }, []string{"BRIDGE_AUTH", "did you mean tls?"}},
		{"plaintext elsewhere", func(s *Settings) { s.Brokers = append(s.Brokers, "10.0.0.1:9092") }, []string{"BRIDGE_ALLOW_PLAINTEXT=true"}},
		{"endpoint", func(s *Settings) { s.PubSubEndpoint = "https://x" }, []string{"BRIDGE_PUBSUB_ENDPOINT"}},
		{"emulator", func(s *Settings) { s.EmulatorHost = "http://x:1" }, []string{"PUBSUB_EMULATOR_HOST"}},
		{"emulator and endpoint", func(s *Settings) { s.EmulatorHost, s.PubSubEndpoint = "x:1", "y:1" }, []string{"both set"}},
		{"emulator without project", func(s *Settings) { s.EmulatorHost, s.Project = "x:1", "" }, []string{"BRIDGE_PROJECT is not set"}},
		{"topic illegal", func(s *Settings) { s.Topics = []string{"a b"} }, []string{`BRIDGE_TOPICS entry 1: topic "a b"`}},
		{"topic dot", func(s *Settings) { s.Topics = []string{"..=dots"} }, []string{"not a Kafka topic name"}},
		{"topic long", func(s *Settings) { s.Topics = []string{long + "=dots"} }, []string{"not a Kafka topic name"}},
		{"topic empty", func(s *Settings) { s.Topics = []string{"orders", " "} }, []string{"BRIDGE_TOPICS entry 2: is empty"}},
		{"destination empty", func(s *Settings) { s.Topics = []string{"orders="} }, []string{"no destination after ="}},
		{"destination needed", func(s *Settings) { s.Topics = []string{"0rders"} }, []string{"starts with a letter", "to:", "0rders=..."}},
		{"destination goog", func(s *Settings) { s.Topics = []string{"orders=google"} }, []string{"goog"}},
		{"destination short", func(s *Settings) { s.Topics = []string{"orders=ab"} }, []string{"3 to 255"}},
		{"destination chars", func(s *Settings) { s.Topics = []string{"orders=a/b"} }, []string{"letters, digits"}},
		{"full name broken", func(s *Settings) { s.Topics = []string{"orders=projects/p/subscriptions/x"} }, []string{"projects/PROJECT/topics/TOPIC"}},
		{"twice", func(s *Settings) { s.Topics = []string{"orders", "pay=pay-events", "orders=other"} }, []string{"entry 3: route orders", "already has a route at BRIDGE_TOPICS entry 1"}},
		{"dead letter is destination", func(s *Settings) { s.DeadLetterTopic = "orders" }, []string{"route orders", "is the destination of route orders"}},
		{"dead letter is another's destination", func(s *Settings) {
			s.Topics, s.DeadLetterTopic = []string{"orders", "pay=projects/proj/topics/dead"}, "dead"
		}, []string{"route orders", "is the destination of route pay"}},
		{"several at once", func(s *Settings) { s.Cluster, s.Topics = "", []string{"a b", "c d"} }, []string{"BRIDGE_CLUSTER", `"a b"`, `; BRIDGE_TOPICS entry 2: topic "c d"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := build(settings(t, c.change), 1<<30)
			wantErr(t, err, c.want...)
		})
	}
}

func TestManyProblemsStayShort(t *testing.T) {
	s := settings(t, func(s *Settings) {
		s.Topics = nil
		for i := range 50 {
			s.Topics = append(s.Topics, fmt.Sprintf("a b%d", i))
		}
	})
	_, err := build(s, 0)
	wantErr(t, err, "and 30 more")
}

func TestNewAccepts(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Settings)
		check  func(*Config) bool
	}{
		{"minimal", nil, func(c *Config) bool {
			r := c.Routes[0]
			return len(c.Routes) == 1 && r.Topic == "orders" && r.Destination == "projects/proj/topics/orders" && r.DeadLetter == "" &&
				r.Ordering == OrderingNone && r.OnPoison == OnPoisonHold && r.Format == "raw" && r.Start == "earliest"
		}},
		{"blanks around entries", func(s *Settings) { s.Topics = []string{" orders", "\n pay = pay-events "} }, func(c *Config) bool {
			return c.Routes[1].Topic == "pay" && c.Routes[1].Destination == "projects/proj/topics/pay-events"
		}},
		{"dead letter", func(s *Settings) { s.DeadLetterTopic = "dead" }, func(c *Config) bool {
			return c.Routes[0].DeadLetter == "projects/proj/topics/dead" && c.Routes[0].OnPoison == OnPoisonPark
		}},
		{"many to one", func(s *Settings) { s.Topics = []string{"orders=all", "pay=all"} }, func(c *Config) bool {
			return c.Routes[0].Destination == c.Routes[1].Destination
		}},
		{"full names need no project", func(s *Settings) { s.Topics, s.Project = []string{"orders=projects/p/topics/orders"}, "" }, func(c *Config) bool {
			return !c.NeedsProject() && c.Routes[0].Destination == "projects/p/topics/orders"
		}},
		{"Google's own variable", func(s *Settings) { s.Project, s.CloudProject = "", "cloud" }, func(c *Config) bool {
			return c.Routes[0].Destination == "projects/cloud/topics/orders"
		}},
		{"loopback names", func(s *Settings) { s.Brokers = []string{"localhost:1", "[::1]:2", "127.8.9.1:3"} }, func(c *Config) bool { return true }},
		{"plaintext allowed", func(s *Settings) { s.Brokers, s.AllowPlaintext = []string{"kafka:9092"}, true }, func(c *Config) bool { return true }},
		{"endpoint gets a port", func(s *Settings) { s.PubSubEndpoint = "us-central1-pubsub.googleapis.com" }, func(c *Config) bool {
			return c.PubSubEndpoint == "us-central1-pubsub.googleapis.com:443"
		}},
		{"dataset", func(s *Settings) { s.Dataset = "kafka_1" }, func(c *Config) bool { return c.Dataset == "kafka_1" }},
		{"dataset of an old project", func(s *Settings) { s.Dataset = "example.com:old-project.kafka" }, func(c *Config) bool { return true }},
		{"memory of the container", nil, func(c *Config) bool { return c.Memory == 1<<30 && c.Sizes.Window == 128<<20 }},
		{"memory asked", func(s *Settings) { s.Memory = 256 * mib }, func(c *Config) bool { return c.Sizes.Window == 32<<20 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := build(settings(t, c.change), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(got) {
				t.Errorf("not as expected: %+v", got)
			}
		})
	}
}

func TestResolveProject(t *testing.T) {
	unresolved := func(t *testing.T) *Config {
		t.Helper()
		c, err := build(settings(t, func(s *Settings) {
			s.Project, s.Topics, s.DeadLetterTopic = "", []string{"orders", "pay=projects/p/topics/dead"}, "dead"
		}), 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	answer := func(project string, err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return project, err }
	}
	t.Run("found", func(t *testing.T) {
		c := unresolved(t)
		if err := c.ResolveProject(t.Context(), answer("found", nil)); err != nil {
			t.Fatal(err)
		}
		if c.Routes[0].Destination != "projects/found/topics/orders" || c.Routes[0].DeadLetter != "projects/found/topics/dead" || c.NeedsProject() {
			t.Errorf("not resolved: %+v", c.Routes)
		}
	})
	t.Run("found, and now a dead-letter topic is a destination", func(t *testing.T) {
		wantErr(t, unresolved(t).ResolveProject(t.Context(), answer("p", nil)), "is the destination of route pay")
	})
	t.Run("refused", func(t *testing.T) {
		wantErr(t, unresolved(t).ResolveProject(t.Context(), answer("", errors.New("no route"))), "set BRIDGE_PROJECT", "no route")
	})
	t.Run("nonsense", func(t *testing.T) {
		wantErr(t, unresolved(t).ResolveProject(t.Context(), answer("<html>", nil)), "not a project id")
	})
	t.Run("silent for two seconds", func(t *testing.T) {
		c := unresolved(t)
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			err := c.ResolveProject(t.Context(), func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})
			wantErr(t, err, "set BRIDGE_PROJECT")
			if d := time.Since(begin); d != 2*time.Second {
				t.Errorf("took %v", d)
			}
		})
	})
	t.Run("known project asks nobody", func(t *testing.T) {
		c, err := build(settings(t, nil), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ResolveProject(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestExamples(t *testing.T) {
	for name, routes := range map[string]int{"routes.yaml": 1, "routes-full.yaml": 3} {
		t.Run(name, func(t *testing.T) {
			c, err := build(settings(t, func(s *Settings) {
				s.Topics, s.RoutesFile = nil, filepath.Join("..", "..", "examples", name)
			}), 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Routes) != routes {
				t.Errorf("%d routes, want %d", len(c.Routes), routes)
			}
		})
	}
}
