package sink

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// stampEvery is how often a wait shows life, however long it is.
const stampEvery = 5 * time.Second

// waits knows all waits that go on and when each showed life, for the health
// check. The zero value is ready. Safe for concurrent use.
type waits struct {
	mu     sync.Mutex // guards active
	active map[*time.Time]struct{}
}

// woke says what ended a wait.
type woke uint8

const (
	wokeOver   woke = iota // the time is over
	wokeSignal             // the signal came
	wokeToken              // the token came and is now the caller's
	wokeEnded              // ctx ended
)

// forEver is a wait without an end of its own.
const forEver = time.Duration(-1)

// wait blocks for d, or until signal, token (each may be nil) or the end of ctx.
func (w *waits) wait(ctx context.Context, d time.Duration, signal, token <-chan struct{}) woke {
	begun := time.Now()
	stamp := begun
	w.set(&stamp, begun)
	defer w.remove(&stamp)
	for {
		step := stampEvery
		if d >= 0 {
			step = min(step, d-time.Since(begun))
		}
		t := time.NewTimer(step)
		select {
		case <-ctx.Done():
			t.Stop()
			return wokeEnded
		case <-signal:
			t.Stop()
			return wokeSignal
		case <-token:
			t.Stop()
			return wokeToken
		case now := <-t.C:
			if d >= 0 && time.Since(begun) >= d {
				return wokeOver
			}
			w.set(&stamp, now)
		}
	}
}

func (w *waits) set(stamp *time.Time, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active == nil {
		w.active = map[*time.Time]struct{}{}
	}
	*stamp = now
	w.active[stamp] = struct{}{}
}

func (w *waits) remove(stamp *time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.active, stamp)
}

// oldest returns the oldest stamp, the zero time when nothing waits.
func (w *waits) oldest() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var oldest time.Time
	for stamp := range w.active {
		if oldest.IsZero() || stamp.Before(oldest) {
			oldest = *stamp
		}
	}
	return oldest
}

const (
	// backoffMin and backoffMax bound the window from which a retry's delay is
	// drawn. With K batches in flight a route in an outage soon tries K times in
	// 15 s, about once a second.
	backoffMin = 100 * time.Millisecond
	backoffMax = 30 * time.Second
	// backoffQuota is backoffMin for an exhausted quota, which refills slowly.
	backoffQuota = time.Second
)

// retryDelay draws the delay before the next attempt: full jitter over a window
// that begins at first and doubles with each failure, the first being 1.
func retryDelay(failures int, first time.Duration) time.Duration {
	window := backoffMax
	if n := failures - 1; n < 10 { // 2^10 times backoffMin is above backoffMax
		window = min(first<<n, backoffMax)
	}
	return rand.N(window)
}
