//go:build synctests

package consumer

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// steadily produces a few records four times a second to topics until the returned
// function is called, which waits for the last of them.
func (w *world) steadily(topics ...string) (stop func()) {
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			for _, topic := range topics {
				w.produce(topic, 5, 100)
			}
			select {
			case <-ended:
				return
			case <-time.After(250 * time.Millisecond):
			}
		}
	})
	return func() {
		close(ended)
		running.Wait()
	}
}

func routeTo(topic, destination string) Route {
	return Route{Topic: topic, Destination: "projects/p/topics/" + destination}
}

// longestPause returns the longest time between two requests with records of
// topic from since on.
func (m *member) longestPause(topic string, since time.Time) (longest time.Duration) {
	last := since
	for _, q := range m.pub.requests() {
		if q.batch.Route == topic && q.at.After(since) {
			longest = max(longest, q.at.Sub(last))
			last = q.at
		}
	}
	return max(longest, time.Since(last))
}

// A route more disturbs no other beyond the rejoin, and begins at its start.
func TestAddRoutesUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, "orders", "payments", "refunds")
		w.produce("payments", 300, 100)
		m := w.join(memberSizes(), OrderingNone, spread(20*time.Millisecond), "orders", "refunds")
		stop := w.steadily("orders", "payments")
		time.Sleep(5 * time.Second)
		began := time.Now()
		if err := m.AddRoutes(t.Context(), routeTo("payments", "payments")); err != nil {
			t.Fatal(err)
		}
		w.within(10*time.Second, "the new route delivers", func() bool {
			for _, q := range m.pub.requests() {
				if q.batch.Route == "payments" {
					return true
				}
			}
			return false
		})
		time.Sleep(5 * time.Second)
		if pause := m.longestPause("orders", began); pause > time.Second {
			t.Errorf("orders paused for %v", pause)
		}
		stop()
		w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders", "payments"))
		if repeats := w.wantAll(); repeats != 0 {
			t.Errorf("%d records were published twice", repeats)
		}
		if s := m.Snapshot().Routes; len(s) != 3 || s[1].Topic != "payments" || s[1].Partitions != 3 {
			t.Errorf("%+v", s)
		}
		if err := m.AddRoutes(t.Context(), routeTo("payments", "elsewhere")); err == nil {
			t.Error("a topic got two routes")
		}
	})
}

// What was open is drained and committed; another route of the topic goes on
// exactly there.
func TestChangeARouteUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, "orders", "payments")
		m := w.join(memberSizes(), OrderingNone, spread(300*time.Millisecond), "orders", "payments")
		stop := w.steadily("orders", "payments")
		time.Sleep(5 * time.Second)
		began := time.Now()
		for range 2 {
			m.RemoveRoutes(t.Context(), "payments", "not ours")
			gone := time.Now()
			if s := m.Snapshot().Routes; len(s) != 1 || s[0].Topic != "orders" {
				t.Errorf("%+v", s)
			}
			for _, q := range m.pub.open() {
				if q.batch.Route == "payments" {
					t.Error("a batch of the removed route is in flight")
				}
			}
			time.Sleep(3 * time.Second)
			for _, q := range m.pub.requests() {
				if q.batch.Route == "payments" && q.at.After(gone) {
					t.Fatal("a batch of the removed route was sent")
				}
			}
			if err := m.AddRoutes(t.Context(), routeTo("payments", "elsewhere")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		if pause := m.longestPause("orders", began); pause > time.Second {
			t.Errorf("orders paused for %v", pause)
		}
		stop()
		w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders", "payments"))
		if repeats := w.wantAll(); repeats != 0 {
			t.Errorf("%d records were published twice", repeats)
		}
		for _, q := range m.pub.requests() {
			if other := q.at.After(began); q.batch.Route == "payments" && bytes.Contains(q.batch.Head, []byte("elsewhere")) != other {
				t.Fatalf("a batch of %v has the destination %q", q.at.Sub(began), q.batch.Head)
			}
		}
	})
}

// A held route is not waited for, nothing of it is committed, and what replaces
// it delivers everything: so a wrong destination is put right.
func TestReplaceAHeldRoute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("payments", 2000, 500)
		m := w.join(memberSizes(), OrderingNone, func(q *request) time.Duration {
			if strings.HasSuffix(string(q.batch.Head), "right") || q.batch.Route == "orders" {
				return 10 * time.Millisecond
			}
			q.batch.SetStalled(true)
			return -1
		}, "orders", "payments")
		w.within(time.Minute, "the route is full", func() bool { return len(m.pub.open()) == 4 })
		began := time.Now()
		m.RemoveRoutes(t.Context(), "payments")
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("removing took %v", took)
		}
		if s := m.Snapshot(); s.InHand != 0 || len(m.pub.open()) != 0 {
			t.Errorf("%d bytes in hand, %d requests open", s.InHand, len(m.pub.open()))
		}
		w.mu.Lock()
		for at, next := range w.committed {
			if at.topic == "payments" && next != 0 {
				t.Errorf("%v is committed to %d", at, next)
			}
		}
		w.mu.Unlock()
		if err := m.AddRoutes(t.Context(), routeTo("payments", "right")); err != nil {
			t.Fatal(err)
		}
		w.within(time.Minute, "commits reach the log end", w.allCommitted("payments"))
		w.wantAll()
	})
}

// Neither a Kafka that is silent nor a stop in between keeps anybody.
func TestRemoveRoutesIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("payments", 2000, 500)
		m := w.join(memberSizes(), OrderingNone, never, "orders", "payments")
		w.within(time.Minute, "the route is full", func() bool { return len(m.pub.open()) == 4 })
		m.link.BlackHole(true)
		began := time.Now()
		m.RemoveRoutes(t.Context(), "payments")
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("removing took %v", took)
		}
		if err := m.AddRoutes(t.Context(), routeTo("payments", "payments")); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, m.end)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began = time.Now()
		m.RemoveRoutes(ctx, "payments")
		if took := m.stop(); took > 9*time.Second || time.Since(began) > 9*time.Second {
			t.Errorf("stopping took %v", time.Since(began))
		}
		m.gone()
	})
}

// A topic that is removed while it is begun anew is not consumed again.
func TestRemovedTopicIsNotReadmitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("payments", 10, 10)
		m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "commits reach the log end", w.allCommitted("payments"))
		m.RemoveRoutes(t.Context(), "payments")
		m.readmit(t.Context(), "payments")
		w.produce("payments", 10, 10)
		time.Sleep(time.Minute)
		for _, topic := range m.client.Load().GetConsumeTopics() {
			if topic == "payments" {
				t.Error("the removed topic is consumed")
			}
		}
		if err := m.AddRoutes(t.Context(), routeTo("payments", "payments")); err != nil {
			t.Fatal(err)
		}
		w.within(time.Minute, "commits reach the log end", w.allCommitted("payments"))
		w.wantAll()
	})
}
