package logging

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// Names of fields that alerts and the limiter depend on.
const (
	fieldEvent = "event"
	fieldTopic = "topic"
	fieldRange = "range" // partition/first-next of offsets that were lost
)

// Events returns a function that writes events to log. It may be called from
// any goroutine and waits for nothing but the write. The message alone says all
// of an event, because that is what log viewers show; the fields say it again
// for machines.
func Events(log *slog.Logger) func(fault.Event) {
	return func(e fault.Event) {
		ctx := context.Background() //nolint:forbidigo // an event comes from anywhere, without a context
		level := levelOf(e.Kind)
		if !log.Enabled(ctx, level) {
			return
		}
		r := slog.NewRecord(time.Now(), level, messageOf(e), 0)
		r.AddAttrs(attrsOf(e)...)
		_ = log.Handler().Handle(ctx, r) // there is nowhere left to report a log that cannot be written
	}
}

// levelOf says how loud a kind is: errors want an operator, warnings a look.
func levelOf(k fault.Kind) slog.Level {
	switch k {
	case fault.ConfigRejected, fault.TopicMissing, fault.Loss, fault.Truncated, fault.PartitionBlocked, fault.AccessRefused, fault.RouteHeld:
		return slog.LevelError
	case fault.TopicRecreated, fault.RecordParked, fault.RouteRetrying, fault.ForeignMember, fault.ZeroAssignment:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

func hasRange(v fault.Event) bool { return v.First < v.Next }

func messageOf(v fault.Event) string {
	m := strings.ReplaceAll(string(v.Kind), "_", " ")
	if v.Topic != "" {
		m += ": " + v.Topic
		if v.Partition >= 0 {
			m += fmt.Sprintf("/%d", v.Partition)
		}
	}
	if hasRange(v) {
		m += fmt.Sprintf(" offsets %d to %d", v.First, v.Next-1)
	}
	if v.Reason != "" {
		m += ": " + v.Reason
	}
	return m
}

func attrsOf(v fault.Event) []slog.Attr {
	out := []slog.Attr{slog.String(fieldEvent, string(v.Kind))}
	if v.Topic != "" {
		out = append(out, slog.String(fieldTopic, v.Topic))
	}
	if v.Topic != "" && v.Partition >= 0 {
		out = append(out, slog.Int("partition", int(v.Partition)))
	}
	if hasRange(v) {
		out = append(out, slog.Int64("first", v.First), slog.Int64("next", v.Next))
	}
	// Each loss names a range that is named nowhere else, so no two are alike.
	if v.Kind == fault.Loss || v.Kind == fault.Truncated {
		out = append(out, slog.String(fieldRange, fmt.Sprintf("%d/%d-%d", v.Partition, v.First, v.Next)))
	}
	if v.Size > 0 {
		out = append(out, slog.Int64("size", v.Size))
	}
	if v.Reason != "" {
		out = append(out, slog.String("reason", v.Reason))
	}
	if v.Err != nil {
		out = append(out, slog.String("error", v.Err.Error()))
	}
	return out
}
