package consumer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// "Lost: detach, no commit."
func TestLostDetachesWithoutACommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0, 1)
		r.poll(0, polled(0, 2000)...)
		open := r.inFlight(2)
		c := &Consumer{}
		c.lanes.change(func(all map[string]*lane) { all["orders"] = r.lane })
		c.joined.Store(true)
		l := r.ledgerOf(0)
		// No client is needed: there is nothing to commit with.
		began := time.Now()
		c.onLost(t.Context(), nil, map[string][]int32{"orders": {0}, "not ours": {1}})
		synctest.Wait()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %v for partitions that are already given away", waited)
		}
		if !l.detached || !open[0].cancelled() || !open[1].cancelled() {
			t.Errorf("detached %v, cancelled %v and %v, want all", l.detached, open[0].cancelled(), open[1].cancelled())
		}
		if c.joined.Load() {
			t.Error("still counts as joined")
		}
		r.wantMark(0, 0)
		r.poll(1, polled(0, 1000)...)
		r.inFlight(1)[0].ack()
		r.wantMark(1, 1000)
	})
}

func TestLostEndsARevokeThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0, 1)
		r.poll(0, polled(0, 1000)...)
		v := r.revoke(0)
		time.Sleep(300 * time.Millisecond)
		r.do(func(l *lane) { l.lose([]int32{1}) })
		v.want(t, 300*time.Millisecond, 300*time.Millisecond+atOnce)
	})
}

// "A callback is short for everybody's sake": not even a lane that does not
// answer makes it long.
func TestRevokeDoesNotWaitForALaneThatIsStuck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		free := make(chan struct{})
		r.lane.inbox.put(func() { <-free })
		r.revoke(0).want(t, 3*time.Second, 3*time.Second+atOnce)
		close(free)
	})
}

// The end of the process: everything is retired, and what nobody answers is
// abandoned when the lane's context ends.
func TestLaneEndsWithAPublisherThatNeverAnswers(t *testing.T) {
	for _, ordering := range []Ordering{OrderingNone, OrderingPartition} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, ordering, testSizes(), 0, 1)
			r.poll(0, polled(0, 5300)...)
			r.poll(1, polled(0, 5300)...)
			r.inFlight(2)
			began := time.Now()
			r.stop()
			<-r.ended
			if took := time.Since(began); took > 0 {
				t.Errorf("the lane ended %v after its context", took)
			}
			r.wantMark(0, 0)
		})
	}
}

func TestStopRetiresEveryPartition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingPartition, testSizes(), 0, 1, 2)
		r.pub.script = answerAfter(2500 * time.Millisecond)
		for p := range int32(3) {
			r.poll(p, polled(0, 1500)...)
		}
		c := &Consumer{}
		c.lanes.change(func(all map[string]*lane) { all["orders"] = r.lane })
		began := time.Now()
		c.retire(map[string][]int32{"orders": nil}, drainStop, drainStop)
		if took := time.Since(began); took < 5*time.Second || took > 5*time.Second+atOnce {
			t.Errorf("draining two rounds of 2.5 s took %v", took)
		}
		for p := range int32(3) {
			r.wantMark(p, 1500)
		}
	})
}

// The group may place us before the client's constructor has returned to Run.
func TestPlacedBeforeTheClientIsThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, err := New(Options{
			Brokers: []string{"localhost:9092"}, Group: "g", Cluster: "test", SessionTimeout: time.Second, Sizes: testSizes(),
			Routes: []Route{{Topic: "orders", Destination: "projects/p/topics/orders"}},
		}, &scriptedPublisher{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err = c.onPlaced(ctx, map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(7)}})
		if took := time.Since(began); err != nil || took != 3*time.Second+placeGrace {
			t.Errorf("placed after %v with error %v, want to wait for the client until the session ended", took, err)
		}
	})
}
