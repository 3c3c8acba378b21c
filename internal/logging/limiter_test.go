package logging

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// buffer is written by timers while the test reads.
type buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// take returns what was written since the last call.
func (b *buffer) take(t *testing.T) []map[string]any {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.b.Reset()
	return lines(t, &b.b)
}

// bubble runs a test in virtual time with a logger.
func bubble(t *testing.T, test func(t *testing.T, b *buffer, log *slog.Logger, l *Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{}
		log, l := NewJSON(b, slog.LevelInfo)
		test(t, b, log, l)
	})
}

// pause lets virtual time pass.
func pause(d time.Duration) { <-time.After(d) }

func TestPermanentFaultStaysQuiet(t *testing.T) {
	bubble(t, func(t *testing.T, b *buffer, log *slog.Logger, _ *Limiter) {
		emit := Events(log)
		held := 0
		for minute := range 60 {
			perRoute := map[any]int{}
			for second := range 60 {
				for r := range 3 {
					topic := fmt.Sprintf("topic-%d", r)
					emit(fault.Event{Kind: fault.RouteHeld, Topic: topic, Partition: -1, Reason: fmt.Sprintf("attempt %d", minute*60+second)})
					log.Warn("kafka client: unable to fetch", slog.String("topic", topic), slog.Int("attempt", second))
					held++
				}
				pause(time.Second)
			}
			for _, line := range b.take(t) {
				perRoute[line["topic"]]++
				if line["event"] == string(fault.RouteHeld) {
					held--
					if n, ok := line["repeated"].(float64); ok {
						held -= int(n) - 1
					}
				}
			}
			for topic, n := range perRoute {
				if n > 9 {
					t.Fatalf("minute %d: %d lines for %v", minute, n, topic)
				}
			}
			if len(perRoute) != 3 {
				t.Fatalf("minute %d: lines of %d routes", minute, len(perRoute))
			}
		}
		if held < 0 || held > 3*60 {
			t.Errorf("%d events are in no line and no summary", held)
		}
	})
}

func TestSummary(t *testing.T) {
	bubble(t, func(t *testing.T, b *buffer, log *slog.Logger, _ *Limiter) {
		for i := range 10 {
			log.Warn("refused", slog.Int("attempt", i))
			pause(time.Second)
		}
		if got := b.take(t); len(got) != burst {
			t.Fatalf("%d lines at once, want %d", len(got), burst)
		}
		pause(49 * time.Second)
		if got := b.take(t); len(got) != 0 {
			t.Fatalf("summary before its minute: %v", got)
		}
		pause(time.Second + 1)
		got := b.take(t)
		if len(got) != 1 || got[0]["message"] != "refused (repeated 8 times)" || got[0]["repeated"] != 8.0 || got[0]["attempt"] != 9.0 || got[0]["severity"] != "WARNING" {
			t.Fatalf("got %v", got)
		}
		// Within the next window the fault still counts as the same one.
		log.Warn("refused", slog.Int("attempt", 10))
		if got := b.take(t); len(got) != 0 {
			t.Fatalf("got %v", got)
		}
		pause(2*time.Minute + 1)
		if got := b.take(t); len(got) != 1 || got[0]["repeated"] != 1.0 {
			t.Fatalf("got %v", got)
		}
		// A quiet minute later it is news again.
		log.Warn("refused", slog.Int("attempt", 11))
		if got := b.take(t); len(got) != 1 || got[0]["repeated"] != nil {
			t.Fatalf("got %v", got)
		}
	})
}

func TestEachLossIsWritten(t *testing.T) {
	bubble(t, func(t *testing.T, b *buffer, log *slog.Logger, _ *Limiter) {
		for p := range int32(20) {
			Events(log)(fault.Event{Kind: fault.Loss, Topic: "orders", Partition: p, First: 0, Next: 9})
		}
		if got := b.take(t); len(got) != 20 {
			t.Errorf("%d of 20 losses named", len(got))
		}
	})
}

func TestWhatIsAlike(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(*slog.Logger)
		want  int // lines written at once
	}{
		{"same message", func(l *slog.Logger) {
			for range 9 {
				l.Warn("x")
			}
		}, burst},
		{"another message", func(l *slog.Logger) {
			for i := range 9 {
				l.Warn(fmt.Sprintf("x %d", i)) //nolint:sloglint // other messages are the point
			}
		}, 9},
		{"another level", func(l *slog.Logger) { l.Info("x"); l.Warn("x"); l.Error("x") }, 3},
		{"another topic", func(l *slog.Logger) {
			for i := range 9 {
				l.Warn("x", slog.Int("topic", i))
			}
		}, 9},
		{"topic bound before", func(l *slog.Logger) {
			for i := range 9 {
				l.With(slog.Int("topic", i)).Warn("x")
			}
		}, 9},
		{"same topic bound before", func(l *slog.Logger) {
			for range 9 {
				l.With(slog.String("topic", "orders")).Warn("x")
			}
		}, burst},
		{"a topic inside a group is another thing", func(l *slog.Logger) {
			for i := range 9 {
				l.WithGroup("g").Warn("x", slog.Int("topic", i))
			}
		}, burst},
		{"events whatever their text", func(l *slog.Logger) {
			for i := range 9 {
				Events(l)(fault.Event{Kind: fault.RouteHeld, Topic: "orders", Err: errors.New(fmt.Sprint(i))})
			}
		}, burst},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *buffer, log *slog.Logger, _ *Limiter) {
				c.write(log)
				if got := b.take(t); len(got) != c.want {
					t.Errorf("%d lines, want %d: %v", len(got), c.want, got)
				}
			})
		})
	}
}

func TestFlush(t *testing.T) {
	bubble(t, func(t *testing.T, b *buffer, log *slog.Logger, l *Limiter) {
		for range 5 {
			log.Warn("refused")
		}
		b.take(t)
		l.Flush()
		if got := b.take(t); len(got) != 1 || got[0]["repeated"] != float64(5-burst) {
			t.Errorf("got %v", got)
		}
		l.Flush()
		pause(5 * time.Minute)
		if got := b.take(t); len(got) != 0 {
			t.Errorf("written twice: %v", got)
		}
		if len(l.entries) != 0 {
			t.Errorf("%d keys remembered for ever", len(l.entries))
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	bubble(t, func(t *testing.T, b *buffer, log *slog.Logger, l *Limiter) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					log.Warn("refused")
					l.Flush()
				}
			})
		}
		wg.Wait()
		l.Flush()
		total := 0
		for _, line := range b.take(t) {
			if n, ok := line["repeated"].(float64); ok {
				total += int(n)
			} else {
				total++
			}
		}
		if total != 400 {
			t.Errorf("lines stand for %d, want 400", total)
		}
	})
}
