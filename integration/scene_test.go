//go:build integration && unix

package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// sessionTimeout is the shortest that brokers accept.
const sessionTimeout = 6 * time.Second

// scene is one load on one cluster, with the settings of the bridges that
// bring it to one destination.
type scene struct {
	*feed
	k        *kafka
	group    string
	routes   int // of every bridge
	project  string
	rand     *rand.Rand
	settings map[string]string
	fake     *fakepubsub.Server // nil when the emulator is the destination
}

const deadLetters = "dead-letters"

func newScene(t testing.TB, k *kafka, topics int) *scene {
	t.Helper()
	name, n := unique(t), seed(t)
	s := &scene{k: k, group: name, project: "p-" + name, rand: rand.New(rand.NewPCG(n, 2))}
	s.feed, s.routes = newFeed(t, k, name, topics, n), topics
	s.settings = map[string]string{
		"BRIDGE_BROKERS": strings.Join(k.brokers, ","), "BRIDGE_TOPICS": strings.Join(s.topics, ","),
		"BRIDGE_AUTH": "plaintext", "BRIDGE_ALLOW_PLAINTEXT": "true",
		"BRIDGE_GROUP": name, "BRIDGE_PROJECT": s.project, "BRIDGE_DEAD_LETTER_TOPIC": deadLetters,
		"BRIDGE_SESSION_TIMEOUT": sessionTimeout.String(), "BRIDGE_MEMORY": "256MiB",
	}
	return s
}

// destination is the full name of a Pub/Sub topic of the scene.
func (s *scene) destination(topic string) string {
	return fmt.Sprintf("projects/%s/topics/%s", s.project, topic)
}

func (s *scene) destinations() []string {
	list := []string{s.destination(deadLetters)}
	for _, topic := range s.topics {
		list = append(list, s.destination(topic))
	}
	return list
}

// toEmulator makes the emulator the destination and receives all of it.
func (s *scene) toEmulator() {
	s.t.Helper()
	e := pubsubEmulator(s.t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	if err := e.CreateTopics(ctx, s.destinations()...); err != nil {
		cancel()
		s.t.Fatal(err)
	}
	s.settings["PUBSUB_EMULATOR_HOST"] = e.Address()
	var receivers sync.WaitGroup
	for _, name := range s.destinations() {
		receivers.Go(func() {
			if err := e.Receive(ctx, name, s.truth.fromEmulator); err != nil {
				s.t.Error(err)
			}
		})
	}
	s.t.Cleanup(func() {
		cancel()
		receivers.Wait()
	})
}

// toFake makes the strict fake the destination; more is told of what it stores.
func (s *scene) toFake(more ...fakepubsub.Store) {
	s.t.Helper()
	s.fake = fakepubsub.New(fakepubsub.Options{Stores: append(more, s.truth)})
	address, err := s.fake.Start()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.fake.Close()
		for _, v := range s.fake.Violations() {
			s.t.Errorf("a request to %s broke a limit of Pub/Sub: %s", v.Topic, v.Why)
		}
	})
	for _, name := range s.destinations() {
		s.createDestination(name)
	}
	s.settings["PUBSUB_EMULATOR_HOST"] = address
}

func (s *scene) createDestination(name string) {
	s.t.Helper()
	if err := s.fake.CreateTopics(name); err != nil {
		s.t.Fatal(err)
	}
}

// start runs one more instance of the bridge.
func (s *scene) start(name string) *bridge {
	s.t.Helper()
	return start(s.t, name, maps.Clone(s.settings))
}

// awaitArrivals waits until n more records have arrived than now.
func (s *scene) awaitArrivals(n int, within time.Duration) {
	s.t.Helper()
	target := s.truth.now().received + n
	eventually(s.t, within, fmt.Sprintf("%d more records to arrive", n), func() bool {
		return s.truth.now().received >= target
	})
}

// pause waits a random time up to most: the random moment of a fault.
func (s *scene) pause(most time.Duration) {
	<-time.After(time.Duration(s.rand.Int64N(int64(most))))
}

// summary prints the line that a reader of the test's output looks for.
func (s *scene) summary(format string, args ...any) {
	s.t.Logf("SUMMARY kafka %s, %s: %s; %s", s.k.version, s.where(), s.truth.verdict(s.t), fmt.Sprintf(format, args...))
}

func (s *scene) where() string {
	if s.fake != nil {
		return "strict fake"
	}
	return "emulator"
}

func records(t testing.TB) int {
	t.Helper()
	return number(t, "MSKBRIDGE_RECORDS", 30_000)
}

func topics(t testing.TB) int {
	t.Helper()
	return number(t, "MSKBRIDGE_TOPICS", 8)
}

func perSecond(t testing.TB) int {
	t.Helper()
	return number(t, "MSKBRIDGE_RATE", 4000)
}

// patience is how long a load may take to arrive: generous, since machines
// differ, and only a wait that ends the test.
func patience(t testing.TB) time.Duration {
	t.Helper()
	return 2*time.Minute + time.Duration(records(t))*time.Millisecond
}
