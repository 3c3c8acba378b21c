//go:build synctests

package consumer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// reason is the trouble of a topic, "" for the group.
func (m *member) reason(topic string) string {
	s := m.Snapshot()
	if topic == "" {
		return s.Trouble.Reason
	}
	for _, r := range s.Routes {
		if r.Topic == topic {
			return r.Trouble.Reason
		}
	}
	return ""
}

func (m *member) count(kind fault.Kind) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// trickle writes a record to each partition of the topics every second until
// stop is called.
func (w *world) trickle(topics ...string) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			for _, topic := range topics {
				w.produce(topic, 1, 50)
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// TestDeniedAndGranted withdraws a permission in each place where a broker asks
// for it, for two minutes, and gives it back. The trouble is named with
// principal and resource within 30 s, another topic loses nothing by it where
// one topic is meant, and all is delivered without a restart.
func TestDeniedAndGranted(t *testing.T) {
	const denial = 2 * time.Minute
	const topic, group = "may not read topic payments", "may not use group bridge"
	for _, c := range []struct {
		name  string
		keys  []kmsg.Key
		err   *kerr.Error
		from  time.Duration // after the member started
		topic string        // that is meant, "" for the group
		want  string
	}{
		{"topic, asking for committed offsets", []kmsg.Key{kmsg.OffsetFetch}, kerr.TopicAuthorizationFailed, 0, "payments", topic},
		{"topic, asking for anything", []kmsg.Key{kmsg.Metadata, kmsg.ListOffsets, kmsg.OffsetFetch, kmsg.Fetch}, kerr.TopicAuthorizationFailed, 0, "payments", topic},
		{"topic, fetching", []kmsg.Key{kmsg.Fetch}, kerr.TopicAuthorizationFailed, 20 * time.Second, "payments", topic},
		{"topic, everything, in the middle", []kmsg.Key{kmsg.Metadata, kmsg.ListOffsets, kmsg.OffsetFetch, kmsg.Fetch}, kerr.TopicAuthorizationFailed, 20 * time.Second, "payments", topic},
		{"group, from the start", []kmsg.Key{kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.OffsetFetch}, kerr.GroupAuthorizationFailed, 0, "", group},
		{"group, in the middle", []kmsg.Key{kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetFetch, kmsg.OffsetCommit}, kerr.GroupAuthorizationFailed, 20 * time.Second, "", group},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, "orders", "payments")
				w.adapt = func(o *Options) { o.Auth.Principal = "arn:aws:iam::1:role/bridge" }
				var denied *kfake.FaultHandle
				deny := func() {
					f := kfake.Fault{Keys: c.keys, Topic: c.topic, Err: c.err, Count: -1}
					if c.topic == "" {
						f.Group = testGroup
					}
					denied = w.kafka.Fault(f)
				}
				w.produce("payments", 40, 50)
				if c.from == 0 {
					deny()
				}
				feed := []string{"orders", "payments"}
				if slices.Contains(c.keys, kmsg.Metadata) {
					feed = feed[:1] // the producer would be refused, too
				}
				stop := w.trickle(feed...)
				m := w.join(memberSizes(), OrderingNone, spread(50*time.Millisecond), "orders", "payments")
				if c.from > 0 {
					time.Sleep(c.from)
					deny()
				}
				named := w.within(30*time.Second, "the trouble is named", func() bool { return strings.Contains(m.reason(c.topic), c.want) })
				if !strings.HasPrefix(m.reason(c.topic), "arn:aws:iam::1:role/bridge may not") || !m.has(fault.AccessRefused) {
					t.Errorf("reason %q, %d events", m.reason(c.topic), m.count(fault.AccessRefused))
				}
				orders := func() (n int64) {
					for _, r := range m.Snapshot().Routes {
						if r.Topic == "orders" {
							n = r.Settled
						}
					}
					return n
				}
				before := orders()
				time.Sleep(denial)
				if got, want := orders()-before, int64(denial/time.Second)*3*9/10; c.topic != "" && got < want {
					t.Errorf("orders delivered %d records beside the refused topic, want at least %d", got, want)
				}
				if !strings.Contains(m.reason(c.topic), c.want) {
					t.Errorf("after %v the reason is %q", denial, m.reason(c.topic))
				}
				if n := m.count(fault.AccessRefused); n > 4 {
					t.Errorf("%d events of one lasting trouble", n)
				}
				denied.Remove()
				stop()
				w.produce("payments", 40, 50)
				took := w.within(time.Minute, "all is delivered after the grant", w.allCommitted("orders", "payments"))
				w.within(time.Minute, "the trouble is over", func() bool { return m.reason(c.topic) == "" })
				w.wantAll()
				t.Logf("named after %v: %s; all delivered %v after the grant", named, c.want, took)
			})
		})
	}
}

// TestReadDeniedCausesNoRebalance has a topic that may be described, but not
// read: taking it out and in again would not help, and disturb the others.
func TestReadDeniedCausesNoRebalance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders", "payments")
		stop := w.trickle("orders", "payments")
		m := w.join(memberSizes(), OrderingNone, spread(50*time.Millisecond), "orders", "payments")
		w.within(time.Minute, "it has all partitions", func() bool { return m.partitions() == 6 })
		time.Sleep(10 * time.Second)
		joins := w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Count: -1, Observe: true})
		denied := w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "payments", Err: kerr.TopicAuthorizationFailed, Count: -1})
		time.Sleep(time.Minute)
		if n := joins.Hits(); n != 0 {
			t.Errorf("%d joins while a topic may not be read", n)
		}
		denied.Remove()
		stop()
		w.within(time.Minute, "all is delivered", w.allCommitted("orders", "payments"))
		w.wantAll()
	})
}
