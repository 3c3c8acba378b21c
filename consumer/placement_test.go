//go:build synctests

package consumer

import (
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// delete deletes the records of all partitions below first.
func (w *world) delete(topic string, first int64) {
	w.t.Helper()
	for p := range int32(3) {
		if err := w.kafka.DeleteRecords(topic, p, first); err != nil {
			w.t.Fatal(err)
		}
	}
}

// lose makes the world expect that nobody reads the offsets [first, next).
func (w *world) lose(topic string, first, next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range int32(3) {
		for o := first; o < next; o++ {
			delete(w.visible, place{topic, p, o})
		}
	}
}

func TestLossAtAssignment(t *testing.T) {
	tests := []struct {
		name  string
		start int64
	}{
		{"some is left", 150},
		{"nothing is left", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, "orders", "payments")
				w.produce("orders", 100, 10)
				m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
				w.within(time.Minute, "it is read", w.allCommitted("orders"))
				m.stop()
				w.produce("orders", 100, 10)
				w.delete("orders", tt.start)
				w.lose("orders", 100, tt.start)
				for again := range 2 {
					m = w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
					w.others()
					w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders"))
					if again == 0 {
						m.wantRanges(fault.Loss, 100, tt.start)
					} else if got := m.of(fault.Loss); len(got) > 0 {
						t.Errorf("told again: %+v", got)
					}
					for _, q := range m.pub.requests() {
						for _, r := range q.records {
							if r.gap > 0 {
								t.Errorf("record %d has gap %d: a loss is no hole", r.offset, r.gap)
							}
						}
					}
					m.stop()
				}
				w.wantAll()
			})
		})
	}
}

// A route that is held falls behind retention.
func TestLossWhileRunning(t *testing.T) {
	tests := []struct {
		name  string
		start int64
	}{
		{"some is left", 2500},
		{"nothing is left", 3000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, "orders", "payments")
				sizes := memberSizes()
				sizes.Window = 1 * mib
				w.produce("orders", 3000, 100)
				m := w.join(sizes, OrderingNone, func(q *request) time.Duration {
					if q.batch.Route == "orders" && len(q.records) > 0 && q.at.Before(heldUntil(w)) {
						return time.Until(heldUntil(w))
					}
					return 0
				}, "orders", "payments")
				w.within(time.Minute, "the route is paused", func() bool { return m.Snapshot().Routes[0].Paused })
				w.others()
				w.delete("orders", tt.start)
				w.within(10*time.Minute, "commits reach the log ends", w.allCommitted("orders"))
				w.others()
				got := m.of(fault.Loss)
				if len(got) != 3 {
					t.Fatalf("told %+v", got)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range got {
					if e.Next != tt.start || e.First <= 0 || e.First >= e.Next {
						t.Errorf("told [%d, %d)", e.First, e.Next)
					}
					for o := range int64(3000) {
						p := place{"orders", e.Partition, o}
						if lost := o >= e.First && o < e.Next; lost == w.acked[p] {
							t.Fatalf("%v: lost %v, acknowledged %v", p, lost, w.acked[p])
						} else if lost {
							delete(w.visible, p)
						}
					}
				}
			})
		})
	}
}

// heldUntil is when the destination of the test above takes records.
func heldUntil(w *world) time.Time { return w.began.Add(2 * time.Minute) }

func TestCommitBeyondTheLogEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("orders", 100, 10)
		m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "it is read", w.allCommitted("orders"))
		m.stop()
		w.setCommit("orders", 1000, -1, "")
		m = w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "commits come back to the log ends", w.allCommitted("orders"))
		m.wantRanges(fault.Truncated, 100, 1000)
		if repeats := w.wantAll(); repeats != 300 {
			t.Errorf("%d records were read again, want all", repeats)
		}
		w.others()
		m.stop()
		m = w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.others()
		if got := m.of(fault.Truncated); len(got) > 0 {
			t.Errorf("told again: %+v", got)
		}
	})
}

func TestColdStart(t *testing.T) {
	tests := []struct {
		name  string
		start func(*world) Start
		want  int64 // first offset read
	}{
		{"earliest", func(*world) Start { return Start{} }, 0},
		{"latest", func(*world) Start { return Start{Latest: true} }, 200},
		{"time", func(w *world) Start { return Start{At: w.began.Add(time.Hour)} }, 100},
		{"time before everything", func(w *world) Start { return Start{At: w.began.Add(-time.Hour)} }, 0},
		{"time to come", func(w *world) Start { return Start{At: w.began.Add(24 * time.Hour)} }, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, "orders", "payments")
				w.produce("orders", 100, 10)
				time.Sleep(2 * time.Hour)
				w.produce("orders", 100, 10)
				w.mu.Lock()
				for p := range int32(3) {
					w.skipFrom[place{topic: "orders", partition: p}] = tt.want
				}
				w.mu.Unlock()
				w.lose("orders", 0, tt.want)
				w.start = tt.start(w)
				// Two at once must agree where it begins.
				a := w.join(memberSizes(), OrderingNone, spread(time.Second), "orders", "payments")
				b := w.join(memberSizes(), OrderingNone, spread(time.Second), "orders", "payments")
				w.within(time.Minute, "the start is committed", func() bool {
					for p := range int32(3) {
						if w.commitOf("orders", p).At < tt.want {
							return false
						}
					}
					return true
				})
				w.produce("orders", 50, 10)
				w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders"))
				w.wantAll()
				told := append(a.of(fault.ColdStart), b.of(fault.ColdStart)...)
				if n := len(told); n == 0 || n > 4 { // of two topics, by one or both
					t.Errorf("told %+v", told)
				}
				if got := append(a.of(fault.PartitionsAdded), b.of(fault.PartitionsAdded)...); len(got) > 0 {
					t.Errorf("told %+v", got)
				}
				w.others()
				a.stop()
				b.stop()
				a = w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
				w.others()
				if got := a.of(fault.ColdStart); len(got) > 0 {
					t.Errorf("told again: %+v", got)
				}
			})
		})
	}
}

// The group was deleted, or its commits have expired.
func TestColdStartOfAGroupThatWasDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("orders", 100, 10)
		m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "it is read", w.allCommitted("orders"))
		m.stop()
		if _, err := w.admin().DeleteGroups(t.Context(), testGroup); err != nil {
			t.Fatal(err)
		}
		w.setCommit("payments", 0, -1, "")
		w.forget("orders")
		w.mu.Lock()
		clear(w.times)
		w.mu.Unlock()
		m = w.join(memberSizes(), OrderingNone, spread(0), "orders", "payments")
		w.within(time.Minute, "it is read again", w.allCommitted("orders"))
		if got := m.of(fault.ColdStart); len(got) != 1 || got[0].Topic != "orders" {
			t.Errorf("told %+v", got)
		}
		w.mu.Lock()
		if n := len(w.times); n != 300 {
			t.Errorf("%d keys, want the 300 of before", n)
		}
		for p := range w.keys {
			w.visible[p] = true
		}
		w.mu.Unlock()
		w.others()
	})
}
