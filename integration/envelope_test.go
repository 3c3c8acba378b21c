//go:build integration && unix

package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/history"
)

// TestEnvelopes sends what is hard on an envelope through a route for each form
// of the value, on a real Kafka. The judge of the simulation holds every member
// against the record.
func TestEnvelopes(t *testing.T) {
	const undecodable, published = "undecodable", ""
	many := make([]kgo.RecordHeader, 150)
	for i := range many {
		many[i] = kgo.RecordHeader{Key: fmt.Sprintf("h%03d", i), Value: []byte("v")}
	}
	odd := []kgo.RecordHeader{
		{Key: "a\xff", Value: []byte("gr\xfc\xdfe")}, {Key: "null"}, {Key: "", Value: []byte("\u2028\x01\"\\\n")}, {Key: "long", Value: bytes.Repeat([]byte("v"), 5000)},
	}
	change := []byte("{\"op\": \"u\",\r\n\t\"note\": \"\\\"\u2028\\u00e9\", \"total\": 19.99e0}")
	eight := []byte(`"` + strings.Repeat("v", 8_000_000) + `"`)
	eleven := []byte(`"` + strings.Repeat("v", 11_000_000) + `"`)
	tests := []struct {
		name        string
		record      kgo.Record
		bytes, json string // reason of being parked
	}{
		{"JSON", kgo.Record{Key: []byte("k"), Value: change}, published, published},
		{"150 headers", kgo.Record{Value: change, Headers: many}, published, published},
		{"odd headers", kgo.Record{Value: change, Headers: odd}, published, published},
		{"long binary key", kgo.Record{Key: bytes.Repeat([]byte{0xff, 0}, 1000), Value: change}, published, published},
		{"1990", kgo.Record{Value: change, Timestamp: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)}, published, published},
		{"tombstone", kgo.Record{Key: []byte("k")}, published, published},
		{"nothing at all", kgo.Record{}, published, published},
		{"JSON's null", kgo.Record{Value: []byte("null")}, published, published},
		{"empty", kgo.Record{Key: []byte{}, Value: []byte{}}, published, undecodable},
		{"binary", kgo.Record{Value: []byte("\x00\x00\x00\x00\x07avro")}, published, undecodable},
		{"something behind", kgo.Record{Value: append(bytes.Clone(change), 'x')}, published, undecodable},
		{"not UTF-8", kgo.Record{Value: []byte("\"gr\xfc\xdfe\"")}, published, undecodable},
		{"8 MB, too large in base64 alone", kgo.Record{Value: eight}, "too_large", published},
		{"11 MB", kgo.Record{Value: eleven}, "too_large", "too_large"},
	}
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			s := newScene(t, broker(t, version), 2)
			s.truth.content = contentOf
			judge := history.New(history.Options{
				Cluster: "msk", Group: s.group, DeadLetters: []string{s.destination(deadLetters)},
				Routes:    map[string]string{s.destination(s.topics[0]): s.topics[0], s.destination(s.topics[1]): s.topics[1]},
				Envelopes: map[string]history.Envelope{s.topics[0]: history.EnvelopeBytes, s.topics[1]: history.EnvelopeJSON},
			})
			var stored fakepubsub.Messages
			s.toFake(judge, &stored)
			s.routesFile(fmt.Sprintf("defaults: {format: envelope}\nroutes:\n- topic: %s\n- {topic: %s, value: json}\n", s.topics[0], s.topics[1]))
			for i := range tests {
				for _, topic := range s.topics {
					r := tests[i].record
					r.Topic = topic
					s.produce(&r)
					judge.Produced(s.truth.ids[topic], &r)
				}
			}
			b := s.start("one")
			s.awaitAll(time.Minute)
			s.awaitCommits(s.group)
			if err := judge.Check(); err != nil {
				t.Error(err)
			}
			got := s.reasons(&stored)
			for i, tt := range tests {
				for n, want := range []string{tt.bytes, tt.json} {
					reason, arrived := got[s.topics[n]+"/"+strconv.Itoa(i)]
					t.Logf("%s, value %s: %s", tt.name, []string{"bytes", "json"}[n], map[bool]string{true: "published", false: "parked: " + reason}[reason == ""])
					if !arrived || reason != want {
						t.Errorf("%s on %s: parked for %q, want %q", tt.name, s.topics[n], reason, want)
					}
				}
			}
			b.awaitReady()
			s.summary("%d records on a route of each form", len(tests))
		})
	}
}

// contentOf takes the value out of an envelope of either form.
func contentOf(data []byte) []byte {
	var e struct {
		Tombstone bool    `json:"is_tombstone"`
		Value     *string `json:"value"`
	}
	if json.Unmarshal(data, &e) != nil || e.Value == nil {
		return nil
	}
	if value, err := base64.StdEncoding.DecodeString(*e.Value); err == nil && !json.Valid([]byte(*e.Value)) {
		return value
	}
	return []byte(*e.Value)
}

// routesFile gives the bridges of the scene a routes file instead of the list.
func (s *scene) routesFile(text string) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "routes.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	delete(s.settings, "BRIDGE_TOPICS")
	s.settings["BRIDGE_ROUTES_FILE"] = path
}

// reasons says by topic and record offset why it was parked, "" when it was not.
func (s *scene) reasons(stored *fakepubsub.Messages) map[string]string {
	all := map[string]string{}
	for _, name := range s.destinations() {
		for _, kept := range stored.Of(name) {
			all[kept.Attributes[message.AttrTopic]+"/"+kept.Attributes[message.AttrOffset]] = kept.Attributes[message.AttrParkedReason]
		}
	}
	return all
}
