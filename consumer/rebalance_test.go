package consumer

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// revoked is a revoke callback under way.
type revoked struct {
	began time.Time
	took  chan time.Duration // written once, when the callback returns
}

// revoke starts what the client's callback does for lost partitions.
func revoke(lanes map[string]*lane, lost map[string][]int32) *revoked {
	c := &Consumer{}
	c.lanes.now.Store(&lanes)
	v := &revoked{began: time.Now(), took: make(chan time.Duration, 1)}
	go func() {
		c.retire(lost, drainRevoke, drainQuiet)
		v.took <- time.Since(v.began)
	}()
	synctest.Wait()
	return v
}

func (r *rig) revoke(partitions ...int32) *revoked {
	return revoke(map[string]*lane{"orders": r.lane}, map[string][]int32{"orders": partitions})
}

// want waits for the callback and checks how long it took.
func (v *revoked) want(t *testing.T, atLeast, atMost time.Duration) {
	t.Helper()
	if took := <-v.took; took < atLeast || took > atMost {
		t.Errorf("the callback took %v, want %v to %v", took, atLeast, atMost)
	}
}

// atOnce is the tolerance for "not waited for": one look of the lane.
const atOnce = retireEvery

func (r *rig) ledgerOf(partition int32) *ledger {
	var l *ledger
	r.do(func(lane *lane) { l = lane.parts[partition].ledger })
	return l
}

func answerAfter(delay time.Duration) func(*request) time.Duration {
	return func(*request) time.Duration { return delay }
}

// "A synchronous request to the lane of each lost partition, in parallel."
func TestRevokeAsksAllLanesAtOnceAndWaitsForEach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newRig(t, OrderingNone, testSizes(), 0), newRig(t, OrderingNone, testSizes(), 0)
		a.pub.script, b.pub.script = answerAfter(700*time.Millisecond), answerAfter(900*time.Millisecond)
		a.poll(0, polled(0, 10)...)
		b.poll(0, polled(0, 20)...)
		v := revoke(map[string]*lane{"a": a.lane, "b": b.lane}, map[string][]int32{"a": {0}, "b": {0}, "not ours": {4}})
		v.want(t, 900*time.Millisecond, 900*time.Millisecond+atOnce)
		if a.marked(0) != 10 || b.marked(0) != 20 {
			t.Errorf("marked %d and %d when the callback returned, want 10 and 20", a.marked(0), b.marked(0))
		}
	})
}

// "Seal and send what is open."
func TestRevokeSendsWhatIsOpen(t *testing.T) {
	for _, ordering := range []Ordering{OrderingNone, OrderingPartition} {
		bubble(t, func(t *testing.T) {
			sizes := testSizes()
			sizes.Linger = 500 * time.Millisecond
			r := newRig(t, ordering, sizes, 0)
			r.poll(0, polled(0, 7)...)
			r.inFlight(0)
			v := r.revoke(0)
			r.inFlight(1)[0].ack()
			v.want(t, 0, atOnce)
			if got := r.marked(0); got != 7 {
				t.Errorf("marked %d when the callback returned, want 7", got)
			}
		})
	}
}

// "Wait for acknowledgements ...": what waits behind K in flight is sent, too.
func TestRevokeDrainsWhatIsQueued(t *testing.T) {
	for _, ordering := range []Ordering{OrderingNone, OrderingPartition} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, ordering, testSizes(), 0)
			r.pub.script = answerAfter(200 * time.Millisecond)
			r.poll(0, polled(0, 4500)...)
			r.revoke(0).want(t, 600*time.Millisecond, time.Second+atOnce)
			if got := r.marked(0); got != 4500 {
				t.Errorf("marked %d when the callback returned, want all 4500", got)
			}
		})
	}
}

// "... at most 2 s ..."
func TestRevokeWaitsAtMostTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		r.poll(0, polled(0, 9000)...)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for tick := time.NewTicker(400 * time.Millisecond); ctx.Err() == nil; {
				select {
				case <-tick.C:
					if open := r.pub.open(); len(open) > 0 { // none once the callback gave up
						open[0].ack()
					}
				case <-ctx.Done():
					tick.Stop()
				}
			}
		}()
		r.revoke(0).want(t, 2*time.Second, 2*time.Second+atOnce)
		stop()
		// 2 are in flight at a time, and 4 or 5 were acknowledged.
		if got := r.marked(0); got < 3000 || got > 5000 {
			t.Errorf("marked %d when the callback returned", got)
		}
	})
}

// "... and only while they arrive."
func TestRevokeWaitsOnlyWhileAcknowledgementsArrive(t *testing.T) {
	tests := []struct {
		name string
		acks []time.Duration
		took time.Duration
		next int64
	}{
		{"none", nil, time.Second, 0},
		{"one, then none", []time.Duration{700 * time.Millisecond}, 1700 * time.Millisecond, 1000},
		{"one too late", []time.Duration{1200 * time.Millisecond}, time.Second, 0},
		{"all", []time.Duration{300 * time.Millisecond, 900 * time.Millisecond}, 900 * time.Millisecond, 2000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, OrderingNone, testSizes(), 0)
				r.poll(0, polled(0, 2000)...)
				for i, q := range r.inFlight(2) {
					if i < len(tt.acks) {
						time.AfterFunc(tt.acks[i], q.ack)
					}
				}
				r.revoke(0).want(t, tt.took, tt.took+atOnce)
				r.wantMark(0, tt.next)
				time.Sleep(5 * time.Second)
				r.wantMark(0, tt.next)
			})
		})
	}
}

func TestRevokeOfAnIdlePartitionReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingPartition, testSizes(), 0, 1)
		r.poll(1, polled(0, 1000)...)
		r.inFlight(1)
		r.revoke(0).want(t, 0, 0)
		r.poll(1, polled(1000, 1001)...) // the other goes on
		r.inFlight(1)[0].ack()
		r.wantMark(1, 1000)
	})
}

// "A held or retrying batch is not waited for."
func TestRevokeDoesNotWaitForAStalledBatch(t *testing.T) {
	tests := []struct {
		name     string
		ordering Ordering
		others   bool // a batch of another partition, which stays, is in flight and healthy
		queued   bool // more of the lost partition waits behind the stalled batch
		later    time.Duration
		took     time.Duration
	}{
		{"stalled before", OrderingNone, false, false, 0, 0},
		{"stalls while it is waited for", OrderingNone, false, false, 500 * time.Millisecond, 500 * time.Millisecond},
		{"ordered", OrderingPartition, false, false, 0, 0},
		{"ordered, more behind it", OrderingPartition, false, true, 0, 0},
		{"ordered, another partition moves", OrderingPartition, true, false, 0, 0},
		{"another partition moves", OrderingNone, true, false, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, tt.ordering, testSizes(), 0, 1)
				r.poll(0, polled(0, 1000)...)
				stalled := r.inFlight(1)[0]
				if tt.others {
					r.poll(1, polled(0, 1000)...)
					r.inFlight(2)
				}
				if tt.queued {
					r.poll(0, polled(1000, 1010)...)
				}
				time.AfterFunc(tt.later, func() { stalled.batch.SetStalled(true) })
				synctest.Wait()
				r.revoke(0).want(t, tt.took, tt.took+atOnce)
				r.wantMark(0, 0)
			})
		})
	}
}

// "Detach the ledger, reply." and "a late acknowledgement settles a detached
// ledger, from which nobody marks."
func TestRevokeDetachesBeforeItReplies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0, 1)
		r.poll(0, polled(0, 500)...)
		r.poll(1, polled(0, 500)...) // shares the batch, which thus lives on
		l := r.ledgerOf(0)
		late := r.inFlight(1)[0]
		v := r.revoke(0)
		<-v.took
		// Read without the lane: the reply orders it before.
		if !l.detached {
			t.Error("the callback returned before the ledger was detached: a commit could pass the revoke")
		}
		late.ack()
		synctest.Wait()
		if l.open != nil && !l.idle() {
			t.Error("the late acknowledgement did not settle the detached ledger")
		}
		r.wantMark(0, 0)
		r.wantMark(1, 500)
	})
}

// What was acknowledged before the reply is marked before it: "then commit".
func TestRevokeMarksBeforeItReplies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		r.poll(0, polled(0, 2000)...)
		open := r.inFlight(2)
		time.AfterFunc(100*time.Millisecond, open[0].ack)
		time.AfterFunc(100*time.Millisecond, open[1].ack)
		v := r.revoke(0)
		<-v.took
		if got := r.marked(0); got != 2000 {
			t.Errorf("marked %d when the callback returned, want 2000: the commit would miss it", got)
		}
	})
}

// "A batch is cancelled only when all its ledgers are detached."
func TestRevokeCancelsABatchWhenNobodyWaitsForIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0, 1, 2)
		r.poll(0, polled(0, 400)...)
		r.poll(1, polled(0, 600)...)
		r.poll(2, polled(0, 1000)...)
		both, other := r.inFlight(2)[0], r.inFlight(2)[1]
		if got := partitionsOf(both); !slices.Equal(got, []int32{0, 1}) {
			t.Fatalf("the batch covers %v", got)
		}
		both.batch.SetStalled(true)
		<-r.revoke(0).took
		synctest.Wait()
		if both.cancelled() {
			t.Fatal("cancelled while partition 1 is still ours")
		}
		<-r.revoke(1).took
		synctest.Wait()
		if !both.cancelled() {
			t.Error("not cancelled although both partitions are gone")
		}
		if other.cancelled() {
			t.Error("the batch of another partition was cancelled")
		}
		other.ack()
		r.wantMark(2, 1000)
		if got := r.lane.stats.abandoned.Load(); got != 1 {
			t.Errorf("%d batches count as abandoned, want 1", got)
		}
	})
}

// A batch that covers another partition, still ours, goes on and settles it,
// whether it is in flight, sealed or still open.
func TestRevokeLetsABatchGoOnForAnotherPartition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sizes := testSizes()
		sizes.InFlight = 1
		r := newRig(t, OrderingNone, sizes, 0, 1)
		r.poll(0, polled(0, 1000)...)
		blocking := r.inFlight(1)[0]
		blocking.batch.SetStalled(true)
		r.poll(0, polled(1000, 1500)...) // sealed with what follows
		r.poll(1, polled(0, 500)...)
		r.poll(0, polled(1500, 2500)...) // sealed, of partition 0 alone
		r.poll(1, polled(500, 510)...)   // open
		<-r.revoke(0).took
		synctest.Wait()
		if !blocking.cancelled() {
			t.Error("the batch of partition 0 alone was not cancelled")
		}
		for range 2 {
			time.Sleep(time.Second)
			q := r.inFlight(1)[0]
			if !slices.Contains(partitionsOf(q), 1) {
				t.Errorf("a batch of partitions %v was sent after the revoke of 0", partitionsOf(q))
			}
			q.ack()
		}
		r.wantMark(1, 510)
		r.wantMark(0, 0)
	})
}

// "A re-assigned partition gets a new ledger."
func TestReassignedPartitionGetsANewLedger(t *testing.T) {
	for _, ordering := range []Ordering{OrderingNone, OrderingPartition} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, ordering, testSizes(), 0, 1)
			r.poll(0, polled(0, 500)...)
			r.poll(1, polled(0, 500)...)
			before := r.ledgerOf(0)
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			old := r.pub.open() // one batch of both, or one for each
			<-r.revoke(0).took
			r.assign(0)
			if r.ledgerOf(0) == before {
				t.Fatal("the ledger is the old one: a late acknowledgement would move it")
			}
			r.poll(0, polled(0, 1200)...)
			for _, q := range old {
				if !q.cancelled() {
					q.ack()
				}
			}
			r.wantMark(0, 0)
			r.wantMark(1, 500)
			for r.marked(0) < 1200 {
				time.Sleep(time.Second)
				synctest.Wait()
				for _, q := range r.pub.open() {
					q.ack()
				}
				synctest.Wait()
			}
			r.wantMark(0, 1200)
		})
	}
}

// A record that was polled just before the partition was taken away is dropped,
// and its bytes go back.
func TestRevokeDropsWhatComesLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		<-r.revoke(0).took
		r.poll(0, polled(0, 100)...)
		time.Sleep(2 * time.Second)
		r.inFlight(0)
		if in, _ := r.gate.hands(); in != 0 {
			t.Errorf("%d bytes in hand", in)
		}
	})
}
