//go:build synctests

package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

func TestConsumerDeliversAndCommitsEverything(t *testing.T) {
	for _, ordering := range []Ordering{OrderingNone, OrderingPartition} {
		t.Run(fmt.Sprintf("ordering %d", ordering), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, "orders", "payments")
				w.produce("orders", 2000, 100)
				m := w.join(memberSizes(), ordering, spread(300*time.Millisecond), "orders", "payments")
				w.produce("payments", 700, 100)
				w.within(2*time.Minute, "commits reach the log ends", w.allCommitted("orders", "payments"))
				if took := m.stop(); took > 2*time.Second {
					t.Errorf("stopping with both sides healthy took %v", took)
				}
				if repeats := w.wantAll(); repeats != 0 {
					t.Errorf("%d records were published twice", repeats)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for p, key := range w.keys {
					want := fmt.Sprintf("v1/test/%s/%s/%d/0/%d", p.topic, topicIDText(w.kafka.TopicID(p.topic)), p.partition, p.offset)
					if key != want {
						t.Fatalf("key %s, want %s", key, want)
					}
				}
			})
		})
	}
}

// The client's own default begins at the end or a minute ago (F10).
func TestConsumerStartsAtTheEarliestRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.produce("orders", 100, 10)
		time.Sleep(24 * time.Hour)
		w.join(memberSizes(), OrderingNone, spread(0), "orders")
		w.within(10*time.Second, "the records of yesterday are acknowledged", func() bool { return w.countAcked() == 300 })
	})
}

func TestConsumerGoesOnWhereItCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		for range 4 {
			w.produce("orders", 150, 10)
			m := w.join(memberSizes(), OrderingNone, spread(100*time.Millisecond), "orders")
			w.within(time.Minute, "some is acknowledged", func() bool { return w.countAcked() > 0 })
			m.stop()
		}
		w.join(memberSizes(), OrderingNone, spread(0), "orders")
		w.within(time.Minute, "commits reach the log ends", w.allCommitted("orders"))
		if repeats := w.wantAll(); repeats != 0 {
			t.Errorf("%d records were published twice: a planned restart repeats nothing", repeats)
		}
	})
}

func TestConsumerStopsWhenThePublisherNeverAnswers(t *testing.T) {
	for _, stalled := range []bool{false, true} {
		t.Run(fmt.Sprintf("stalled %v", stalled), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, "orders", "payments")
				w.produce("orders", 1500, 100)
				w.produce("payments", 1500, 100)
				m := w.join(memberSizes(), OrderingNone, func(q *request) time.Duration {
					q.batch.SetStalled(stalled)
					return -1
				}, "orders", "payments")
				w.within(time.Minute, "batches of both are in flight", func() bool { return len(m.pub.open()) == 8 })
				took := m.stop()
				if took > 9*time.Second {
					t.Errorf("stopping took %v", took)
				}
				if stalled && took > time.Second {
					t.Errorf("stopping took %v although nothing was worth waiting for", took)
				}
				for at, next := range w.committed {
					if next != 0 {
						t.Errorf("%v is committed to %d although nothing was acknowledged", at, next)
					}
				}
			})
		})
	}
}

func TestConsumerStopsWhenKafkaNeverAnswers(t *testing.T) {
	for _, acked := range []bool{true, false} {
		t.Run(fmt.Sprintf("publisher answers %v", acked), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, "orders")
				w.produce("orders", 1500, 100)
				script := never
				if acked {
					script = spread(500 * time.Millisecond)
				}
				m := w.join(memberSizes(), OrderingNone, script, "orders")
				w.within(time.Minute, "batches are sent", func() bool { return len(m.pub.requests()) >= 4 })
				m.link.BlackHole(true)
				if took := m.stop(); took > 9*time.Second {
					t.Errorf("stopping took %v", took)
				}
				m.gone()
			})
		})
	}
}

func TestConsumerStopsWhenKafkaWasNeverThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		m := w.join(memberSizes(), OrderingNone, never, "orders")
		m.link.BlackHole(true)
		time.Sleep(time.Minute)
		if s := m.Snapshot(); s.Answered || s.Joined {
			t.Errorf("answered %v, joined %v with a Kafka that is not there", s.Answered, s.Joined)
		}
		for loop, stamp := range m.Snapshot().Loops {
			if age := time.Since(stamp); age > 11*time.Second {
				t.Errorf("loop %q stamped %v ago", loop, age)
			}
		}
		if took := m.stop(); took > 9*time.Second {
			t.Errorf("stopping took %v", took)
		}
		m.gone()
	})
}

func TestConsumerTransactions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.transaction("orders", true, 5)
		w.transaction("orders", false, 7)
		w.transaction("orders", true, 3)
		w.transaction("orders", false, 4)
		m := w.join(memberSizes(), OrderingNone, spread(50*time.Millisecond), "orders")
		w.within(time.Minute, "the commit reaches the end, behind the last abort marker", w.allCommitted("orders"))
		if end := w.kafka.PartitionInfo("orders", 0).HighWatermark; end != 5+1+7+1+3+1+4+1 {
			t.Errorf("the log ends at %d: markers take offsets", end)
		}
		if repeats := w.wantAll(); repeats != 0 {
			t.Errorf("%d records were published twice", repeats)
		}
		for _, q := range m.pub.requests() {
			for _, r := range q.records {
				// The first record after marker 5, seven aborted ones and marker 13.
				if want := map[int64]int64{14: 9}[r.offset]; max(r.gap, 0) != want {
					t.Errorf("record %d has gap %d, want %d", r.offset, r.gap, want)
				}
			}
		}
	})
}

func TestConsumerSurvivesBrokersThatMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, "orders")
		m := w.join(memberSizes(), OrderingPartition, spread(200*time.Millisecond), "orders")
		for i := range int32(6) {
			w.produce("orders", 300, 50)
			for p := range int32(3) {
				if err := w.kafka.MoveTopicPartition("orders", p, (p+i)%3); err != nil {
					t.Fatal(err)
				}
			}
			m.link.Cut()
			time.Sleep(700 * time.Millisecond)
			w.kafka.RehashCoordinators()
		}
		w.within(2*time.Minute, "commits reach the log ends", w.allCommitted("orders"))
		w.wantAll()
	})
}

func TestConsumerSurvivesABrokerRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 3, "orders")
		w.join(memberSizes(), OrderingNone, spread(200*time.Millisecond), "orders")
		w.produce("orders", 500, 50)
		for node := range int32(3) {
			if err := w.kafka.RemoveNode(node); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if _, _, err := w.kafka.AddNode(node, int(9092+node)); err != nil {
				t.Fatal(err)
			}
			w.produce("orders", 500, 50)
		}
		w.within(2*time.Minute, "commits reach the log ends", w.allCommitted("orders"))
		w.wantAll()
	})
}

func TestConsumerKeepsTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		w.produce("orders", 2500, 1000)
		w.produce("payments", 2500, 1000)
		sizes := memberSizes()
		sizes.Window, sizes.InFlight = 1*mib, 2
		m := w.join(sizes, OrderingNone, func(*request) time.Duration { return 50 * time.Millisecond }, "orders", "payments")
		// What one poll brings: a fetch of the one broker, and what the gate
		// counts beside the bytes of the fetch.
		poll := int64(sizes.FetchMaxBytes) * (1000 + messageOverhead) / 1000
		var most int64
		w.within(10*time.Minute, "commits reach the log ends", func() bool {
			most = max(most, m.Snapshot().InHand)
			return w.allCommitted("orders", "payments")()
		})
		if most > sizes.Window+poll {
			t.Errorf("%d bytes were in hand, the window is %d and one poll %d", most, sizes.Window, poll)
		}
		if most < sizes.Window/2 {
			t.Errorf("only %d bytes were ever in hand: the publisher was not slow enough to prove anything", most)
		}
		if repeats := w.wantAll(); repeats != 0 {
			t.Errorf("%d records were published twice", repeats)
		}
	})
}

func TestConsumerHeldRouteDoesNotStopAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "held", "orders")
		w.produce("held", 3000, 1000)
		w.produce("orders", 3000, 1000)
		sizes := memberSizes()
		sizes.Window = 1 * mib
		m := w.join(sizes, OrderingNone, func(q *request) time.Duration {
			if q.batch.Route == "held" {
				q.batch.SetStalled(true)
				return -1
			}
			return 20 * time.Millisecond
		}, "held", "orders")
		w.within(5*time.Minute, "the other route is committed to its end", w.allCommitted("orders"))
		held := m.Snapshot().Routes[0]
		if held.Topic != "held" || !held.Paused || held.InHand == 0 || held.Oldest.IsZero() {
			t.Errorf("the held route: %+v", held)
		}
		if took := m.stop(); took > 2*time.Second {
			t.Errorf("stopping took %v with one held route", took)
		}
	})
}

func TestConsumerReportsATopicThatIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.produce("orders", 100, 10)
		m := w.join(memberSizes(), OrderingNone, spread(0), "orders", "nowhere")
		w.within(time.Minute, "the other route works", w.allCommitted("orders"))
		w.within(30*time.Second, "the missing topic is named", func() bool { return m.has(fault.TopicMissing) })
		if routes := m.Snapshot().Routes; routes[0].Trouble.Reason == "" || routes[1].Trouble.Reason != "" {
			t.Errorf("troubles: %+v", routes)
		}
		if err := w.kafka.Create("nowhere", 3, nil); err != nil {
			t.Fatal(err)
		}
		w.produce("nowhere", 100, 10)
		w.within(2*time.Minute, "the topic is read when it exists", w.allCommitted("nowhere"))
	})
}

func TestConsumerLagReachesZero(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.produce("orders", 100, 10)
		m := w.join(memberSizes(), OrderingNone, never, "orders")
		w.within(time.Minute, "all of it is seen as lag", func() bool { return m.Lag().Records == 300 })
		time.Sleep(time.Minute)
		if got := m.Lag().Seconds; got < 30 || got > 90 {
			t.Errorf("the lag is %v s after about a minute", got)
		}
		for _, q := range m.pub.open() {
			q.ack()
		}
		w.within(30*time.Second, "the lag is 0", func() bool { l := m.Lag(); return l.Records == 0 && l.Seconds == 0 })
	})
}
