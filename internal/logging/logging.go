// Package logging writes what the bridge has to say: JSON lines with the
// fields that Cloud Logging lifts out, or text for a terminal.
//
// Lines that repeat are limited. Lines are alike when they have the same key:
// event and topic for events, level, message and topic for others. Of lines
// alike the first two are written at once; after them one summary a minute
// stands for the rest, until a minute passes without any. So a fault that never
// ends costs a route a few lines and then one a minute.
//
// Values are printed by an allow-list of types. Bytes and structs, which might
// hold a payload, a key or a header, show as their type alone.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"
)

// Open returns a logger that writes to f: text when f is a terminal, else
// JSON. Use the Limiter to write summaries that are still due before exiting.
func Open(f *os.File, level slog.Leveler) (*slog.Logger, *Limiter) {
	if term.IsTerminal(int(f.Fd())) {
		return NewText(f, level)
	}
	return NewJSON(f, level)
}

// NewJSON returns a logger of JSON lines in Cloud Logging's fields: severity,
// message, time, and logging.googleapis.com/sourceLocation on errors.
func NewJSON(w io.Writer, level slog.Leveler) (*slog.Logger, *Limiter) {
	return limited(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, AddSource: true, ReplaceAttr: cloudAttr}))
}

// NewText returns a logger for people at a terminal.
func NewText(w io.Writer, level slog.Leveler) (*slog.Logger, *Limiter) {
	return limited(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: textAttr}))
}

func limited(h slog.Handler) (*slog.Logger, *Limiter) {
	l := &Limiter{entries: make(map[key]*entry)}
	return slog.New(&handler{next: h, limiter: l}), l
}

// cloudAttr renames slog's own fields to those that Cloud Logging lifts.
func cloudAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 {
		switch a.Key {
		case slog.LevelKey:
			if l, ok := a.Value.Any().(slog.Level); ok {
				return slog.String("severity", severity(l))
			}
		case slog.MessageKey:
			a.Key = "message"
		case slog.SourceKey:
			if src, ok := a.Value.Any().(*slog.Source); ok {
				return sourceLocation(src)
			}
		}
	}
	return printable(a)
}

// textAttr shortens the time: the terminal's user knows the day.
func textAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		return slog.String(a.Key, a.Value.Time().Format(time.TimeOnly))
	}
	return printable(a)
}

// severity is Cloud Logging's name for a level.
func severity(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "DEBUG"
	case l < slog.LevelWarn:
		return "INFO"
	case l < slog.LevelError:
		return "WARNING"
	default:
		return "ERROR"
	}
}

// sourceLocation has the form of LogEntrySourceLocation, where the line is a
// string. The handler removes the position of lines below error.
func sourceLocation(src *slog.Source) slog.Attr {
	if src.File == "" {
		return slog.Attr{}
	}
	return slog.Any("logging.googleapis.com/sourceLocation", map[string]string{
		"file": src.File, "line": strconv.Itoa(src.Line), "function": src.Function,
	})
}

// repeated is what a summary says beyond the last line it stands for.
func repeated(message string, n int) string {
	return fmt.Sprintf("%s (repeated %d times)", message, n)
}
