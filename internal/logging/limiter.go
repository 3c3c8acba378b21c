package logging

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// burst is the number of lines alike that are written at once, enough to
	// see a route held, released and held again for another reason.
	burst = 2
	// window is the time that one summary stands for.
	window = time.Minute
)

// key says which lines are alike.
type key struct {
	what  string // event, or level and message
	topic string
	extra string // keeps events apart that must each be seen
}

// entry is what the limiter remembers of lines alike.
type entry struct {
	written    int // of the burst
	suppressed int // since the last line written
	last       slog.Record
	next       slog.Handler // of last
}

// Limiter counts the lines that were not written. It is safe for concurrent
// use. Each key that was seen within a minute has one entry and one timer.
type Limiter struct {
	mu      sync.Mutex // guards entries
	entries map[key]*entry
}

// admit reports whether the line is to be written now; otherwise it is kept
// for the summary.
func (l *Limiter) admit(k key, r slog.Record, next slog.Handler) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	if e == nil {
		e = &entry{}
		l.entries[k] = e
		time.AfterFunc(window, func() { l.expire(k) })
	}
	if e.written < burst {
		e.written++
		return true
	}
	e.suppressed++
	e.last, e.next = r.Clone(), next
	return false
}

// expire ends a window: it writes the summary of what was suppressed and opens
// the next window, or forgets the key after a window without any.
func (l *Limiter) expire(k key) {
	l.mu.Lock()
	e := l.entries[k]
	due := *e
	if e.suppressed == 0 {
		delete(l.entries, k)
	} else {
		e.suppressed = 0
		time.AfterFunc(window, func() { l.expire(k) })
	}
	l.mu.Unlock()
	due.summarize()
}

// Flush writes the summaries that are due, in no particular order. Call it
// before the process ends; lines may still come afterwards.
func (l *Limiter) Flush() {
	l.mu.Lock()
	var due []entry
	for _, e := range l.entries {
		due = append(due, *e)
		e.suppressed = 0
	}
	l.mu.Unlock()
	for _, e := range due {
		e.summarize()
	}
}

// summarize writes the last line with how many it stands for.
func (e *entry) summarize() {
	if e.suppressed == 0 {
		return
	}
	r := slog.NewRecord(time.Now(), e.last.Level, repeated(e.last.Message, e.suppressed), e.last.PC)
	e.last.Attrs(func(a slog.Attr) bool { r.AddAttrs(a); return true })
	r.AddAttrs(slog.Int("repeated", e.suppressed))
	// There is nowhere left to report a log that cannot be written.
	_ = e.next.Handle(context.Background(), r) //nolint:forbidigo // a timer has no caller whose context would do
}

// handler puts the limiter in front of the handler that writes.
type handler struct {
	next    slog.Handler
	limiter *Limiter
	key     key // of attributes bound by With
	grouped bool
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		r.PC = 0 // the position is worth its bytes on errors only
	}
	k := h.key
	if !h.grouped {
		r.Attrs(func(a slog.Attr) bool { k.take(a); return true })
	}
	if k.what == "" {
		k.what = r.Level.String() + " " + r.Message
	}
	if !h.limiter.admit(k, r, h.next) { //nolint:contextcheck // a summary belongs to no caller
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.next = h.next.WithAttrs(attrs)
	if !c.grouped {
		for _, a := range attrs {
			c.key.take(a)
		}
	}
	return &c
}

func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	c.next, c.grouped = h.next.WithGroup(name), true
	return &c
}

// take notes what an attribute says about which lines are alike.
func (k *key) take(a slog.Attr) {
	switch a.Key {
	case fieldEvent:
		k.what = a.Value.String()
	case fieldTopic:
		k.topic = a.Value.String()
	case fieldRange:
		k.extra = a.Value.String()
	}
}
