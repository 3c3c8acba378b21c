package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// lines decodes JSON lines.
func lines(t *testing.T, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, m)
	}
	return out
}

func TestCloudFields(t *testing.T) {
	var b bytes.Buffer
	log, _ := NewJSON(&b, slog.LevelDebug)
	log.Debug("one")
	log.Info("two", slog.String("topic", "orders"))
	log.Warn("three")
	log.Error("four", slog.Any("error", errors.New("cause")))
	got := lines(t, &b)
	for i, want := range []struct{ severity, message string }{{"DEBUG", "one"}, {"INFO", "two"}, {"WARNING", "three"}, {"ERROR", "four"}} {
		if got[i]["severity"] != want.severity || got[i]["message"] != want.message {
			t.Errorf("line %d: %v", i, got[i])
		}
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got[i]["time"])); err != nil {
			t.Errorf("line %d: %v", i, err)
		}
		for _, old := range []string{"level", "msg", "source"} {
			if _, ok := got[i][old]; ok {
				t.Errorf("line %d has slog's own %q", i, old)
			}
		}
		source, ok := got[i]["logging.googleapis.com/sourceLocation"].(map[string]any)
		if ok != (want.severity == "ERROR") {
			t.Errorf("line %d: source %v", i, source)
		}
		if ok && (!strings.HasSuffix(fmt.Sprint(source["file"]), "logging_test.go") || fmt.Sprintf("%T", source["line"]) != "string") {
			t.Errorf("source %v", source)
		}
	}
	if got[1]["topic"] != "orders" || got[3]["error"] != "cause" {
		t.Errorf("attributes lost: %v", got)
	}
}

func TestLevel(t *testing.T) {
	var b bytes.Buffer
	log, _ := NewJSON(&b, slog.LevelWarn)
	log.Info("quiet")
	Events(log)(fault.Event{Kind: fault.RouteReleased, Topic: "orders", Partition: -1})
	if b.Len() > 0 {
		t.Errorf("got %s", &b)
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	log, _ := NewText(&b, slog.LevelInfo)
	log.Info("hello", slog.String("topic", "orders"))
	if s := b.String(); !strings.HasSuffix(s, "level=INFO msg=hello topic=orders\n") || strings.Contains(s, "T") && !strings.HasPrefix(s, "time=") {
		t.Errorf("got %q", s)
	}
}

func TestOpenWritesJSONToFiles(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, _ := Open(f, slog.LevelInfo)
	log.Info("hello")
	raw, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(t, bytes.NewBuffer(raw)); len(got) != 1 || got[0]["message"] != "hello" {
		t.Errorf("got %s", raw)
	}
}

func TestEventLines(t *testing.T) {
	for _, c := range []struct {
		event    fault.Event
		severity string
		message  string
		fields   map[string]any
		absent   []string
	}{
		{
			fault.Event{Kind: fault.RouteHeld, Topic: "orders", Partition: -1, Reason: "permission denied", Err: errors.New("rpc error")},
			"ERROR", "route held: orders: permission denied",
			map[string]any{"event": "route_held", "topic": "orders", "reason": "permission denied", "error": "rpc error"},
			[]string{"partition", "first", "next", "size"},
		},
		{
			fault.Event{Kind: fault.Loss, Topic: "orders", Partition: 3, First: 10, Next: 50},
			"ERROR", "loss: orders/3 offsets 10 to 49",
			map[string]any{"event": "loss", "partition": 3.0, "first": 10.0, "next": 50.0},
			[]string{"reason", "error"},
		},
		{
			fault.Event{Kind: fault.RecordParked, Topic: "orders", Partition: 0, First: 7, Next: 8, Size: 11_000_000, Reason: "too_large"},
			"WARNING", "record parked: orders/0 offsets 7 to 7: too_large",
			map[string]any{"event": "record_parked", "partition": 0.0, "size": 11_000_000.0},
			nil,
		},
		{
			fault.Event{Kind: fault.Stopping},
			"INFO", "stopping",
			map[string]any{"event": "stopping"},
			[]string{"topic", "partition"},
		},
	} {
		t.Run(string(c.event.Kind), func(t *testing.T) {
			var b bytes.Buffer
			log, _ := NewJSON(&b, slog.LevelInfo)
			Events(log)(c.event)
			got := lines(t, &b)[0]
			if got["severity"] != c.severity || got["message"] != c.message {
				t.Errorf("got %v", got)
			}
			for k, v := range c.fields {
				if got[k] != v {
					t.Errorf("%s is %v, want %v", k, got[k], v)
				}
			}
			for _, k := range c.absent {
				if v, ok := got[k]; ok {
					t.Errorf("%s is %v, want none", k, v)
				}
			}
		})
	}
}
