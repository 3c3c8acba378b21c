//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

const project = "projects/shop-prod/topics/"

// mounted is a routes file as a mounted secret has it: a link to a folder that
// is replaced.
type mounted struct {
	t        *testing.T
	dir      string
	versions int
}

func (m *mounted) path() string { return filepath.Join(m.dir, "now", "routes.yaml") }

func (m *mounted) write(routes string) {
	m.t.Helper()
	m.versions++
	name := fmt.Sprint("v", m.versions)
	next := filepath.Join(m.dir, "next")
	for _, err := range []error{
		os.Mkdir(filepath.Join(m.dir, name), 0o700),
		os.WriteFile(filepath.Join(m.dir, name, "routes.yaml"), []byte(routes), 0o600),
		os.Symlink(name, next), os.Rename(next, filepath.Join(m.dir, "now")),
	} {
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

// reloading is a bridge with a routes file, and what was written to its topics.
type reloading struct {
	*scene
	*command
	file    mounted
	written map[string]int
}

func newReloading(t *testing.T, routes string) *reloading {
	r := &reloading{scene: newScene(t, fakekafka.Options{Brokers: 3}), file: mounted{t: t, dir: t.TempDir()}, written: map[string]int{}}
	for _, topic := range []string{"payments", "refunds"} {
		if err := r.kafka.Create(topic, 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.pubsub.CreateTopics(project+"payments", project+"pay-events", project+"refunds"); err != nil {
		t.Fatal(err)
	}
	r.file.write(routes)
	t.Setenv("BRIDGE_TOPICS", "")
	t.Setenv("BRIDGE_ROUTES_FILE", r.file.path())
	r.command = launch(t, "run")
	r.await("it is ready", func() bool { code, _ := r.get(admin.PathReady); return code == 200 })
	return r
}

func (r *reloading) feed(topics ...string) {
	r.command.t.Helper()
	c := r.client(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	for _, topic := range topics {
		for range 30 {
			if err := c.ProduceSync(r.command.t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
				r.command.t.Fatal(err)
			}
		}
		r.written[topic] += 30
	}
}

// keys returns how many different records of a Kafka topic lie at Pub/Sub, and
// how many copies there are.
func (r *reloading) keys(topic string, destinations ...string) (distinct, copies int) {
	seen := map[string]bool{}
	for _, d := range destinations {
		for _, m := range r.keeps.Of(project + d) {
			if m.Attributes["kafka_topic"] == topic {
				copies++
				seen[m.Attributes["idempotency_key"]] = true
			}
		}
	}
	return len(seen), copies
}

func (r *reloading) status() (s admin.State) {
	_, body := r.get(admin.PathStatus)
	_ = json.Unmarshal([]byte(body), &s)
	return s
}

// reload writes the file, says so, and waits for what follows.
func (r *reloading) reload(routes, what string, done func(admin.State) bool) {
	r.command.t.Helper()
	r.file.write(routes)
	if err := r.Signal(syscall.SIGHUP); err != nil {
		r.command.t.Fatal(err)
	}
	r.await(what, func() bool { return done(r.status()) })
}

func topicsOf(s admin.State) string {
	var all []string
	for _, r := range s.Routes {
		all = append(all, r.Topic)
	}
	return strings.Join(all, ",")
}

func TestReload(t *testing.T) {
	r := newReloading(t, "routes:\n  - topic: orders\n")
	first := r.status().RoutesFile
	if len(first.Version) != 12 || first.Since.IsZero() || first.Rejected != "" {
		t.Errorf("%+v", first)
	}
	r.feed("orders", "payments")

	r.reload("routes:\n  - topic: orders\n  - topic: payments\n", "the new route is there", func(s admin.State) bool {
		return topicsOf(s) == "orders,payments" && s.RoutesFile.Version != first.Version
	})
	r.await("the new route delivers from its first record", func() bool {
		n, _ := r.keys("payments", "payments")
		return n == r.written["payments"]
	})
	r.feed("orders", "payments")

	second := r.status().RoutesFile
	r.reload("routes:\n  - topic: orders\n    odering: key\n", "the file is refused", func(s admin.State) bool {
		return strings.Contains(s.RoutesFile.Rejected, "routes.yaml:3") && s.RoutesFile.Version == second.Version
	})
	if code, _ := r.get(admin.PathReady); code != 200 || topicsOf(r.status()) != "orders,payments" {
		t.Errorf("/ready answers %d, routes %s", code, topicsOf(r.status()))
	}
	r.feed("orders", "payments")

	r.reload("routes:\n  - topic: payments\n    to: pay-events\n  - topic: refunds\n", "the routes are others", func(s admin.State) bool {
		return topicsOf(s) == "payments,refunds" && s.RoutesFile.Rejected == ""
	})
	_, before := r.keys("payments", "payments")
	r.feed("payments", "refunds")
	r.await("they deliver", func() bool {
		n, _ := r.keys("payments", "payments", "pay-events")
		m, _ := r.keys("refunds", "refunds")
		return n == r.written["payments"] && m == r.written["refunds"]
	})
	if _, after := r.keys("payments", "payments"); after != before {
		t.Errorf("%d records went to the old destination", after-before)
	}

	// Without a signal the file is found, too.
	r.file.write("routes:\n  - topic: payments\n    to: pay-events\n  - topic: orders\n")
	r.await("the file is found", func() bool { return topicsOf(r.status()) == "orders,payments" })
	r.feed("orders")
	r.await("the route goes on where it was", func() bool { n, _ := r.keys("orders", "orders"); return n == r.written["orders"] })
	if code := r.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for topic, destinations := range map[string][]string{"orders": {"orders"}, "payments": {"payments", "pay-events"}, "refunds": {"refunds"}} {
		if n, copies := r.keys(topic, destinations...); n != r.written[topic] || copies != n {
			t.Errorf("%s: %d records in %d copies, want %d once", topic, n, copies, r.written[topic])
		}
	}
	events, err := os.ReadFile(r.Log())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(events), `"config_rejected"`); n != 1 {
		t.Errorf("%d events config_rejected, want 1", n)
	}
}

// A route that gets another format has published all before in the old one, and
// publishes all after in the new one, each record once.
func TestReloadChangesTheFormat(t *testing.T) {
	r := newReloading(t, "routes:\n  - topic: orders\n")
	arrived := func() bool { n, _ := r.keys("orders", "orders"); return n == r.written["orders"] }
	r.feed("orders")
	r.await("the values are there", arrived)
	before := r.status().RoutesFile.Version
	r.reload("routes:\n  - topic: orders\n    format: envelope\n", "the file is in force", func(s admin.State) bool {
		return s.RoutesFile.Rejected == "" && s.RoutesFile.Version != before && len(s.Routes) == 1 && s.Routes[0].Partitions == 3
	})
	r.feed("orders")
	r.await("the envelopes are there", arrived)
	for i, m := range r.keeps.Of(project + "orders") {
		if wrapped := strings.HasPrefix(string(m.Data), `{"idempotency_key":"`+m.Attributes["idempotency_key"]+`",`); wrapped != (i >= 30) {
			t.Fatalf("message %d is %.100q", i, m.Data)
		}
	}
	if _, copies := r.keys("orders", "orders"); copies != r.written["orders"] {
		t.Errorf("%d copies of %d records", copies, r.written["orders"])
	}
}

// A destination that was wrong is put right without a restart, and a file that
// is gone changes nothing.
func TestReloadPutsAHeldRouteRight(t *testing.T) {
	r := newReloading(t, "routes:\n  - topic: orders\n  - topic: payments\n    to: nowhere\n")
	r.feed("payments")
	r.await("the route is held", func() bool { return r.status().Routes[1].State == admin.Held })
	if err := os.Rename(r.file.path(), r.file.path()+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := r.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	r.await("the file is missed", func() bool { return strings.Contains(r.status().RoutesFile.Rejected, "reading routes file") })
	r.reload("routes:\n  - topic: orders\n  - topic: payments\n", "it runs", func(s admin.State) bool {
		return len(s.Routes) == 2 && s.Routes[1].State == admin.Running && s.Routes[1].Acknowledged == 30 && s.RoutesFile.Rejected == ""
	})
	if code := r.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
