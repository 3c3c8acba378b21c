package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

// replay runs the command and returns its exit code and result.
func (s *scene) replay(args ...string) (int, replayResult, string) {
	s.t.Helper()
	code, out, errs := runCommand(append([]string{"replay", "--route", "orders", "--output", "json"}, args...)...)
	var r replayResult
	if err := json.Unmarshal([]byte(out), &r); out != "" && err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	return code, r, errs
}

func TestReplayPublishesAndLeavesTheGroupAlone(t *testing.T) {
	s := newScene(t, fakekafka.Options{Brokers: 3})
	s.produce(50, 0)
	s.commit(4)
	code, r, errs := s.replay("--partition", "1", "--from", "10", "--to", "60")
	if code != 0 || !r.Complete || r.Records != 40 || r.Published != 40 || r.Ahead != 10 {
		t.Errorf("exit code %d, %+v, %s", code, r, errs)
	}
	id := s.kafka.TopicInfo("orders").TopicID
	var keys []string
	for _, m := range s.keeps.Of(ordersTopic) {
		keys = append(keys, m.Attributes["idempotency_key"])
	}
	if want := fmt.Sprintf("v1/msk/orders/%s/1/0/10", base64.RawURLEncoding.EncodeToString(id[:])); len(keys) != 40 || keys[0] != want {
		t.Errorf("%d messages, the first %q, want 40 from %q on", len(keys), keys[0], want)
	}
	at, err := kadm.NewClient(s.client()).FetchOffsets(t.Context(), "mskbridge")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := at.Lookup("orders", 1); o.At != 4 {
		t.Errorf("the group's offset is %d, want 4", o.At)
	}
}

func TestReplayDryRunPublishesNothing(t *testing.T) {
	s := newScene(t, fakekafka.Options{})
	s.produce(50, time.Hour)
	s.produce(7, 0)
	big := &kgo.Record{Topic: "orders", Partition: 1, Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}}
	if err := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(t.Context(), big).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.watch()
	now := time.Now()
	code, r, errs := s.replay("--since", now.Add(-time.Minute).Format(time.RFC3339), "--until", now.Add(time.Minute).Format(time.RFC3339), "--dry-run")
	if code != 0 || r.Records != 8 || r.Published != 8 || r.Bytes != 7+4 || !r.DryRun || len(r.Partitions) != 3 {
		t.Errorf("exit code %d, %+v, %s", code, r, errs)
	}
	if n := s.pubsub.Stats(ordersTopic).Requests; n != 0 {
		t.Errorf("%d requests", n)
	}
	for _, key := range s.asked {
		if name := key.Name(); strings.Contains(name, "Group") || strings.Contains(name, "OffsetCommit") {
			t.Errorf("replay sent %s", name)
		}
	}
}

func TestReplayShowsATable(t *testing.T) {
	s := newScene(t, fakekafka.Options{})
	s.produce(1500, 0)
	code, out, errs := runCommand("replay", "--route", "orders", "--partition", "1", "--from", "0", "--to", "1500")
	for _, want := range []string{"partition", "1  ", "1,500 records (1.5 KiB) read", "1,500 published, 0 parked", "0 offsets no longer in Kafka"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
}

func TestReplayRefusesWhatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		name string
		args string
		want string
	}{
		{"no route", "--partition 1 --from 0 --to 3", "--route"},
		{"no range", "--route orders", "either --partition"},
		{"both ranges", "--route orders --partition 1 --from 0 --to 3 --since 2026-01-02T15:04:05Z --until 2026-01-02T15:04:06Z", "either --partition"},
		{"half a range", "--route orders --partition 1 --from 0", "go together"},
		{"half a time", "--route orders --since 2026-01-02T15:04:05Z", "RFC 3339"},
		{"no time", "--route orders --since yesterday --until today", "RFC 3339"},
		{"no number", "--route orders --partition one --from 0 --to 3", "invalid argument"},
		{"backwards", "--route orders --partition 1 --from 9 --to 3", "is empty"},
		{"no such route", "--route payments --partition 1 --from 0 --to 3", `"payments"`},
		{"no such partition", "--route orders --partition 9 --from 0 --to 3", "no partition 9"},
		{"negative rate", "--route orders --partition 1 --from 0 --to 3 --rate -1", "negative"},
		{"no such output", "--route orders --partition 1 --from 0 --to 3 --output xml", "table or json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newScene(t, fakekafka.Options{})
			code, out, errs := runCommand(append([]string{"replay"}, strings.Fields(tt.args)...)...)
			if code != 2 || out != "" || !strings.Contains(errs, tt.want) {
				t.Errorf("exit code %d, %q %q, want 2 with %q", code, out, errs, tt.want)
			}
		})
	}
}
