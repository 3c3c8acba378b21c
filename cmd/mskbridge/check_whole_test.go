package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

func TestCheckOfASoundSetUp(t *testing.T) {
	s := newScene(t, fakekafka.Options{Brokers: 3})
	s.produce(10, 0)
	s.commit(4)
	s.watch()
	code, rows := s.run()
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, r := range rows {
		// What a container would tell, this machine need not.
		if r.Status != check.OK && !(r.Status == check.Unknown && r.What == "memory") && r.What != "cpu" {
			t.Errorf("row %+v", r)
		}
	}
	for _, w := range []wanted{
		{"configuration", check.OK, "1 routes from BRIDGE_TOPICS", ""},
		{"broker " + s.kafka.Brokers()[2], check.OK, "connected in", ""},
		{"access", check.OK, "User:ANONYMOUS", ""},
		{"topic orders", check.OK, "3 partitions", ""},
		{"group mskbridge", check.OK, "may be joined", ""},
		{"dead-letter topic dead", check.OK, "may be published to", ""},
		{"clock", check.OK, "within seconds", ""},
	} {
		if !w.in(rows) {
			t.Errorf("no row %+v in\n%s", w, show(rows))
		}
	}
	s.changedNothing()
}

// What a schema registry put in front of values is named, since what reads the
// Pub/Sub topic meets it.
func TestCheckRecognisesFraming(t *testing.T) {
	s := newScene(t, fakekafka.Options{})
	framed := append([]byte{0, 0, 0, 0, 17}, "avro"...)
	if err := s.client().ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: framed}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.watch()
	if _, rows := s.run(); !(wanted{"topic orders", check.OK, "registry id 17", ""}).in(rows) {
		t.Errorf("rows\n%s", show(rows))
	}
	s.changedNothing()
}

// Configuration that cannot work is a row, too, but nothing is dialled.
func TestCheckOfBadConfiguration(t *testing.T) {
	s := newScene(t, fakekafka.Options{})
	t.Setenv("BRIDGE_MEMORY", "32MiB")
	s.watch()
	code, rows := s.run()
	if w := (wanted{"configuration", check.Fail, "below 48MiB", "config reference"}); code != 2 || len(rows) != 1 || !w.in(rows) {
		t.Errorf("exit code %d, rows\n%s", code, show(rows))
	}
	if len(s.asked) != 0 {
		t.Errorf("asked %v", s.asked)
	}
	routes := filepath.Join(t.TempDir(), "routes.yaml")
	if err := os.WriteFile(routes, []byte("routes:\n  - topic: orders\n    odering: partition\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BRIDGE_MEMORY", "64MiB")
	t.Setenv("BRIDGE_TOPICS", "")
	t.Setenv("BRIDGE_ROUTES_FILE", routes)
	code, rows = s.run()
	if w := (wanted{"configuration", check.Fail, "odering", ""}); code != 2 || !w.in(rows) {
		t.Errorf("exit code %d, rows\n%s", code, show(rows))
	}
}

// Servers that take connections and never say a word are named in time.
func TestCheckOfBlackHoles(t *testing.T) {
	newScene(t, fakekafka.Options{})
	hole := listen(t, func(net.Conn) {})
	t.Setenv("BRIDGE_BROKERS", hole)
	t.Setenv("PUBSUB_EMULATOR_HOST", hole)
	begun := time.Now()
	code, out, _ := runCommand("check", "--output", "json")
	if d := time.Since(begun); d > 30*time.Second {
		t.Errorf("took %v", d)
	}
	var report struct{ Rows []check.Row }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	for _, w := range []wanted{
		{"access", check.Fail, "does not answer", ""},
		{"topic orders", check.Fail, "no answer: ", ""},
	} {
		if code != 1 || !w.in(report.Rows) {
			t.Errorf("exit code %d, no row %+v in\n%s", code, w, show(report.Rows))
		}
	}
}
