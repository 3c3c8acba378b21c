package logging

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

const canary = "CANARY-7c41"

// The shapes in which payloads, keys and headers travel through the bridge.
type record struct {
	Key, Value []byte
	Headers    []struct{ Name, Value string }
	Topic      string
}

type wire struct{ data string }

func (*wire) ProtoMessage()    {}
func (w *wire) String() string { return w.data }

type named []byte

// TestNoPayloadPrints plants a canary in every type that may hold a payload.
func TestNoPayloadPrints(t *testing.T) {
	r := record{Key: []byte(canary), Value: []byte(canary), Topic: canary}
	values := map[string]any{
		"bytes": []byte(canary), "named bytes": named(canary), "array": [len(canary)]byte([]byte(canary)), "list of bytes": [][]byte{[]byte(canary)},
		"map of bytes": map[string][]byte{"k": []byte(canary)}, "raw JSON": json.RawMessage(`"` + canary + `"`),
		"struct": r, "pointer": &r, "list": []record{r}, "list of pointers": []*record{&r}, "map": map[string]record{"k": r},
		"list of any": []any{[]byte(canary), canary}, "map of any": map[string]any{"k": canary},
		"proto": &wire{canary}, "buffer": bytes.NewBufferString(canary), "channel": make(chan record), "func": func() string { return canary },
	}
	forms := []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), fmt.Sprint([]byte(canary)), strings.Trim(strings.ReplaceAll(fmt.Sprint([]byte(canary)), " ", ","), "[]")}
	for name, v := range values {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			for _, open := range []func(*bytes.Buffer) *slog.Logger{
				func(b *bytes.Buffer) *slog.Logger { l, _ := NewJSON(b, slog.LevelDebug); return l },
				func(b *bytes.Buffer) *slog.Logger { l, _ := NewText(b, slog.LevelDebug); return l },
			} {
				log := open(&b)
				log.Error("x", slog.Any("v", v))
				log.With(slog.Any("v", v)).Debug("x")
				log.Info("x", slog.Group("g", slog.Any("v", v)))
				log.WithGroup("g").Warn("x", slog.Any("source", v))
				log.Info("y", slog.Any("source", v), slog.Any("level", v), slog.Any("msg", v), slog.Any("time", v))
			}
			for _, form := range forms {
				if strings.Contains(b.String(), form) {
					t.Errorf("%q shows in %s", form, &b)
				}
			}
			if n := strings.Count(b.String(), "\n"); n != 10 {
				t.Errorf("%d lines, want 10", n)
			}
		})
	}
}

func TestPlainValuesPrint(t *testing.T) {
	var b bytes.Buffer
	log, _ := NewJSON(&b, slog.LevelInfo)
	log.Info("x", slog.Any("list", []string{"a"}), slog.Any("map", map[string][]int32{"orders": {0, 1}}), slog.Any("nil", nil),
		slog.Duration("duration", time.Second), slog.Any("stringer", time.UTC), slog.Any("error", fmt.Errorf("cause")))
	for _, want := range []string{`"list":["a"]`, `"map":{"orders":[0,1]}`, `"nil":null`, `"stringer":"UTC"`, `"error":"cause"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s lacks %s", &b, want)
		}
	}
}
