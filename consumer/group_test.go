//go:build synctests

package consumer

// Tests in which a group rebalances. In a plain build they hang: the client's
// commit waits on a sync.RWMutex, which testing/synctest does not count as
// blocked. The tag synctests makes the client use a lock of channels.

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// feed writes a little to the topics every half second until stop is called.
func (w *world) feed(topics ...string) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			case <-time.After(500 * time.Millisecond):
			}
			for _, topic := range topics {
				w.produce(topic, 40, 50)
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func (m *member) partitions() int {
	n := 0
	for _, r := range m.Snapshot().Routes {
		n += r.Partitions
	}
	return n
}

func TestGroupMembersJoinAndLeaveWithoutRepeats(t *testing.T) {
	for _, ordering := range []Ordering{OrderingNone, OrderingPartition} {
		t.Run(fmt.Sprintf("ordering %d", ordering), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, "orders", "payments")
				stop := w.feed("orders", "payments")
				first := w.join(memberSizes(), ordering, spread(200*time.Millisecond), "orders", "payments")
				w.within(time.Minute, "the first has all partitions", func() bool { return first.partitions() == 6 })
				time.Sleep(5 * time.Second)
				second := w.join(memberSizes(), ordering, spread(300*time.Millisecond), "orders", "payments")
				w.within(time.Minute, "they share", func() bool { return first.partitions() == 3 && second.partitions() == 3 })
				time.Sleep(5 * time.Second)
				left := time.Now()
				if took := first.stop(); took > 2*time.Second {
					t.Errorf("leaving took %v", took)
				}
				w.within(10*time.Second, "the second has all partitions", func() bool { return second.partitions() == 6 })
				if took := time.Since(left); took > 7*time.Second {
					t.Errorf("taking over from a member that left took %v", took)
				}
				stop()
				w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders", "payments"))
				if repeats := w.wantAll(); repeats != 0 {
					t.Errorf("%d records were published twice: healthy members hand over without repeats", repeats)
				}
			})
		})
	}
}

func TestGroupTakesOverFromAMemberThatWasKilled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, "orders")
		stop := w.feed("orders")
		first := w.join(memberSizes(), OrderingNone, spread(200*time.Millisecond), "orders")
		second := w.join(memberSizes(), OrderingNone, spread(200*time.Millisecond), "orders")
		w.within(time.Minute, "they share", func() bool {
			return first.partitions() > 0 && second.partitions() > 0 && first.partitions()+second.partitions() == 3
		})
		time.Sleep(5 * time.Second)
		first.link.Kill()
		took := w.within(25*time.Second, "the second has all partitions within the session timeout and 5 s", func() bool { return second.partitions() == 3 })
		if took < 5*time.Second {
			t.Errorf("taken over after %v: the first did not look killed", took)
		}
		if took := first.stop(); took > 9*time.Second {
			t.Errorf("stopping the member that Kafka has left took %v", took)
		}
		stop()
		w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders"))
		repeats := w.wantAll()
		// 120 records are written each 500 ms; the window in flight and one
		// commit interval are what a crash may repeat.
		if repeats > 120*4 {
			t.Errorf("%d records were published twice", repeats)
		}
		first.gone()
	})
}

func TestGroupRevokeWithAPublisherThatNeverAnswers(t *testing.T) {
	for _, stalled := range []bool{false, true} {
		t.Run(fmt.Sprintf("stalled %v", stalled), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, "orders")
				w.produce("orders", 300, 50)
				first := w.join(memberSizes(), OrderingPartition, func(q *request) time.Duration {
					q.batch.SetStalled(stalled)
					return -1
				}, "orders")
				w.within(time.Minute, "all is in flight", func() bool { return len(first.pub.open()) == 3 })
				second := w.join(memberSizes(), OrderingPartition, spread(0), "orders")
				took := w.within(time.Minute, "the second gets its share", func() bool { return second.partitions() > 0 })
				// A heartbeat tells the first of the rebalance; the drain adds a second at most.
				if took > 3*time.Second+2*time.Second+time.Second {
					t.Errorf("a held route made the rebalance take %v", took)
				}
				// Late acknowledgements of what was taken away move nothing; those
				// of what stayed do. The observer checks every commit.
				time.Sleep(5 * time.Second)
				w.within(time.Minute, "commits reach the log ends", func() bool {
					for _, q := range first.pub.open() {
						if len(q.answer) == 0 {
							q.ack()
						}
					}
					return w.allCommitted("orders")()
				})
				w.wantAll()
			})
		})
	}
}

func TestGroupMemberThatWasFencedStartsAgain(t *testing.T) {
	for _, fault := range []struct {
		name string
		key  kmsg.Key
		err  *kerr.Error
	}{
		{"heartbeat, unknown member", kmsg.Heartbeat, kerr.UnknownMemberID},
		{"heartbeat, illegal generation", kmsg.Heartbeat, kerr.IllegalGeneration},
		{"commit, illegal generation", kmsg.OffsetCommit, kerr.IllegalGeneration},
		{"commit, rebalance in progress", kmsg.OffsetCommit, kerr.RebalanceInProgress},
		{"commit, coordinator moves", kmsg.OffsetCommit, kerr.NotCoordinator},
	} {
		t.Run(fault.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, "orders")
				stop := w.feed("orders")
				m := w.join(memberSizes(), OrderingNone, spread(400*time.Millisecond), "orders")
				w.within(time.Minute, "it has all partitions", func() bool { return m.partitions() == 3 })
				for range 3 {
					time.Sleep(5 * time.Second)
					w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{fault.key}, Err: fault.err, Count: 2})
				}
				time.Sleep(10 * time.Second)
				stop()
				w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders"))
				w.wantAll()
			})
		})
	}
}

// TestGroupRollouts overlaps members again and again, as revisions of a service do.
func TestGroupRollouts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, "orders", "payments")
		stop := w.feed("orders", "payments")
		old := w.join(memberSizes(), OrderingNone, spread(300*time.Millisecond), "orders", "payments")
		for i := range 8 {
			time.Sleep(time.Duration(1+i*5%7) * time.Second)
			fresh := w.join(memberSizes(), OrderingNone, spread(300*time.Millisecond), "orders", "payments")
			time.Sleep(time.Duration(i*3%8) * time.Second)
			if took := old.stop(); took > 9*time.Second {
				t.Errorf("rollout %d: stopping took %v", i, took)
			}
			old = fresh
		}
		stop()
		w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders", "payments"))
		if repeats := w.wantAll(); repeats != 0 {
			t.Errorf("%d records were published twice over 8 planned rollouts", repeats)
		}
	})
}

// A pause outlives a rebalance in the client; the gate's give ends it.
func TestGroupPausedRouteGoesOnAfterARebalance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.produce("orders", 1500, 1000)
		sizes := memberSizes()
		sizes.Window, sizes.InFlight = 1*mib, 1
		slow := func(*request) time.Duration { return 300 * time.Millisecond }
		first := w.join(sizes, OrderingNone, slow, "orders")
		w.within(time.Minute, "the route is paused", func() bool { return first.Snapshot().Routes[0].Paused })
		second := w.join(sizes, OrderingNone, slow, "orders")
		w.within(time.Minute, "they share", func() bool { return second.partitions() > 0 })
		time.Sleep(2 * time.Second)
		second.stop()
		w.within(5*time.Minute, "commits reach the log ends", w.allCommitted("orders"))
		w.wantAll()
	})
}
