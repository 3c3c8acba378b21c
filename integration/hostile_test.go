//go:build integration && unix

package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// outcome is what became of one hostile record.
type outcome struct {
	fakepubsub.Kept
	parked bool
}

func (o outcome) has(name string) bool { _, ok := o.Attributes[name]; return ok }

// TestHostileRecords sends each record that is hard on Pub/Sub between two
// easy neighbours of the same partition.
func TestHostileRecords(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789a"), 1_000_000)
	largeSum := sha256.Sum256(large)
	many := make([]kgo.RecordHeader, 150)
	for i := range many {
		many[i] = kgo.RecordHeader{Key: fmt.Sprintf("h%03d", i), Value: []byte("v")}
	}
	tests := []struct {
		name   string
		record kgo.Record
		right  func(outcome) bool
	}{
		{"11 MB", kgo.Record{Key: []byte("k"), Value: large}, func(o outcome) bool {
			return o.parked && o.Attributes[message.AttrParkedReason] == string(message.TooLarge) &&
				o.Attributes[message.AttrParkedSize] == strconv.Itoa(len(large)) &&
				o.Attributes[message.AttrParkedSHA256] == hex.EncodeToString(largeSum[:])
		}},
		{"header of 2,000 bytes", kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "long", Value: []byte(strings.Repeat("v", 2000))}, {Key: "short", Value: []byte("v")},
		}}, func(o outcome) bool {
			return o.Attributes[message.AttrHeaderPrefix+"short"] == "v" && !o.has(message.AttrHeaderPrefix+"long") &&
				o.Attributes[message.AttrHeadersDropped] == "1"
		}},
		{"header that is not UTF-8", kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "latin", Value: []byte("gr\xfc\xdfe")},
		}}, func(o outcome) bool {
			return strings.Contains(o.Attributes[message.AttrHeadersJSON], `"base64":"Z3L832U="`)
		}},
		{"150 headers", kgo.Record{Value: []byte("v"), Headers: many}, func(o outcome) bool {
			return len(o.Attributes) <= message.MaxAttributes && o.has(message.AttrHeaderPrefix+"h000") &&
				(o.has(message.AttrHeadersJSON) || o.has(message.AttrHeadersDropped))
		}},
		{"null value", kgo.Record{Key: []byte("k")}, func(o outcome) bool {
			return len(o.Data) == 0 && o.Attributes[message.AttrTombstone] == "true" && o.Attributes[message.AttrKey] == "k"
		}},
		{"null key", kgo.Record{Value: []byte("v")}, func(o outcome) bool {
			return string(o.Data) == "v" && !o.has(message.AttrKey)
		}},
		{"empty record", kgo.Record{Key: []byte{}, Value: []byte{}}, func(o outcome) bool {
			return len(o.Data) == 0 && o.has(message.AttrKey) && o.Attributes[message.AttrKey] == "" && !o.has(message.AttrTombstone)
		}},
		{"nothing at all", kgo.Record{}, func(o outcome) bool {
			return len(o.Data) == 0 && !o.has(message.AttrKey) && o.Attributes[message.AttrTombstone] == "true"
		}},
	}
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			var stored fakepubsub.Messages
			s := newScene(t, broker(t, version), 1)
			s.toFake(&stored)
			for i := range tests {
				before, after := kgo.Record{Value: []byte("before")}, kgo.Record{Value: []byte("after")}
				hostile := tests[i].record
				for _, r := range []*kgo.Record{&before, &hostile, &after} {
					r.Topic = s.topics[0]
					s.produce(r)
				}
			}
			b := s.start("one")
			s.awaitAll(time.Minute)
			s.awaitCommits(s.group)
			all := s.outcomes(&stored)
			for i, tt := range tests {
				o := all[3*i+1]
				fate := fmt.Sprintf("published with %d attributes, dropped headers: %q", len(o.Attributes), o.Attributes[message.AttrHeadersDropped])
				if o.parked {
					fate = fmt.Sprintf("parked (%s: %s)", o.Attributes[message.AttrParkedReason], o.Attributes[message.AttrParkedDetail])
				}
				t.Logf("%s: %s; before: %q, after: %q", tt.name, fate, all[3*i].Data, all[3*i+2].Data)
				if !tt.right(o) {
					t.Errorf("%s: parked %v with attributes %.2000q", tt.name, o.parked, fmt.Sprint(o.Attributes))
				}
				if string(all[3*i].Data) != "before" || string(all[3*i+2].Data) != "after" {
					t.Errorf("%s: its neighbours suffered", tt.name)
				}
			}
			b.awaitReady()
			s.summary("%d hostile records", len(tests))
		})
	}
}

// outcomes lists by record offset what the only partition's records became.
func (s *scene) outcomes(stored *fakepubsub.Messages) map[int]outcome {
	all := map[int]outcome{}
	for _, name := range s.destinations() {
		for _, kept := range stored.Of(name) {
			if offset, err := strconv.Atoi(kept.Attributes[message.AttrOffset]); err == nil {
				all[offset] = outcome{kept, name == s.destination(deadLetters)}
			}
		}
	}
	return all
}
