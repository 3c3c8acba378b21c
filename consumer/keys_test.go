package consumer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// withKey is a record with a key, "" for none.
func withKey(offset int64, key string) *kgo.Record {
	r := sized(offset, 16)
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

// keyOf is the ordering key that all records of a request have.
func keyOf(t *testing.T, q *request) string {
	t.Helper()
	for _, r := range q.records {
		if r.ordering != q.records[0].ordering {
			t.Errorf("a request has the ordering keys %q and %q", q.records[0].ordering, r.ordering)
		}
	}
	return q.records[0].ordering
}

func TestKeysHaveRequestsOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingKey, testSizes(), 0, 1)
		r.poll(0, withKey(0, "a"), withKey(1, "b"), withKey(2, ""), withKey(3, "a"), withKey(4, ""))
		r.poll(1, withKey(0, "a"), withKey(1, ""))
		time.Sleep(20 * time.Millisecond)
		got := map[string][]int64{}
		for _, q := range r.inFlight(4) {
			name := fmt.Sprint(keyOf(t, q), partitionsOf(q))
			got[name] = offsetsOf(q.records)
		}
		for name, want := range map[string][]int64{"a[0]": {0, 3}, "b[0]": {1}, "[0 1]": {2, 4, 1}, "a[1]": {0}} {
			if !slices.Equal(got[name], want) {
				t.Errorf("%s has %v, want %v", name, got[name], want)
			}
		}
		// The position moves to the first record that is open, whatever its key.
		for _, q := range r.pub.open() {
			if keyOf(t, q) != "b" {
				q.ack()
			}
		}
		r.wantMark(0, 1)
		r.inFlight(1)[0].ack()
		r.wantMark(0, 5)
	})
}

func TestKeyHasOneRequestInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingKey, testSizes(), 0)
		r.poll(0, withKey(0, "a"), withKey(1, "b"))
		time.Sleep(20 * time.Millisecond)
		r.inFlight(2)[1].ack()
		r.poll(0, withKey(2, "a"), withKey(3, "b"), withKey(4, "a"))
		time.Sleep(2 * time.Second)
		open := r.inFlight(2) // b goes on beside a, which waits
		if got := offsetsOf(open[1].records); !slices.Equal(got, []int64{3}) {
			t.Errorf("beside record 0 %v are in flight, want 3", got)
		}
		open[0].ack()
		open[1].ack()
		if got := offsetsOf(r.inFlight(1)[0].records); !slices.Equal(got, []int64{2, 4}) {
			t.Errorf("%v follow, want 2 and 4", got)
		}
		r.pub.open()[0].ack()
		r.wantMark(0, 5)
	})
}

// However many keys there are, so many requests are in flight, the first come
// are the first sent, memory is accounted, and nothing of a key stays behind.
func TestManyKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 20000
		r := newRig(t, OrderingKey, testSizes(), 0)
		var records []*kgo.Record
		for o := range int64(n) {
			records = append(records, withKey(o, fmt.Sprint("key ", o)))
		}
		r.poll(0, records...)
		time.Sleep(20 * time.Millisecond)
		open := r.inFlight(keysInFlight)
		for i, q := range open {
			if q.records[0].offset != int64(i) {
				t.Fatalf("request %d has record %d", i, q.records[0].offset)
			}
		}
		if in, _ := r.gate.hands(); in < n*(keyOverhead+keyedOverhead) {
			t.Errorf("%d bytes in hand for %d keys", in, n)
		}
		r.pub.script = func(*request) time.Duration { return time.Millisecond }
		for _, q := range open {
			q.ack()
		}
		time.Sleep(time.Second)
		r.wantMark(0, n)
		r.do(func(l *lane) {
			p := l.parts[0]
			if len(p.keys)+len(l.keyed.ready)+l.keyed.inFlight+l.open.Len() != 0 {
				t.Errorf("left: %d queues, %d ready, %d in flight, %d flights", len(p.keys), len(l.keyed.ready), l.keyed.inFlight, l.open.Len())
			}
		})
	})
}

// A wake looks at what can be sent, not at every key that waits.
func TestWaitingKeysCostNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 20000
		r := newRig(t, OrderingKey, testSizes(), 0, 1)
		var records []*kgo.Record
		for o := range int64(n) {
			records = append(records, withKey(o, fmt.Sprint("key ", o)))
		}
		r.poll(0, records...)
		r.inFlight(0) // all linger
		r.do(func(l *lane) {
			if allocs := testing.AllocsPerRun(100, func() { l.send(t.Context(), time.Now()); l.measure() }); allocs > 0 {
				t.Errorf("a wake allocates %v times", allocs)
			}
			began := time.Now() // virtual: it stands still
			if wait := l.send(t.Context(), began); wait > l.sizes.Linger {
				t.Errorf("the lane sleeps %v, the oldest lingers %v", wait, l.sizes.Linger)
			}
		})
		r.do(func(l *lane) { l.lose([]int32{0}) })
		r.do(func(l *lane) {
			if len(l.keyed.ready) != 0 || l.open.Len() != 0 {
				t.Errorf("%d queues and %d flights of a lost partition are left", len(l.keyed.ready), l.open.Len())
			}
		})
	})
}

// The order of each key holds whatever lands when, and over revokes with what
// is read again after them.
func TestKeysKeepOrderOverRevokes(t *testing.T) {
	for seed := range uint64(10) {
		bubble(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			sizes := testSizes()
			sizes.SlabBytes = 2000
			r := newRig(t, OrderingKey, sizes, 0)
			seen := map[string]int64{} // next, by key, of what arrived
			const n = 3000
			keys := make([]string, n)
			for o := range keys {
				keys[o] = fmt.Sprint("k", random.IntN(12))
			}
			keys[17], keys[900] = "", ""
			delays := rand.New(rand.NewPCG(seed, 2))
			r.pub.script = func(q *request) time.Duration {
				r.mu.Lock() // the order in which requests begin is that of a key's arrival
				defer r.mu.Unlock()
				key := keyOf(t, q)
				for _, rec := range q.records {
					for o := seen[key]; key != "" && o < rec.offset; o++ {
						if keys[o] == key {
							t.Errorf("seed %d: key %s: %d came before %d", seed, key, rec.offset, o)
						}
					}
					seen[key] = max(seen[key], rec.offset+1)
				}
				return time.Duration(delays.IntN(300)) * time.Millisecond
			}
			for next := int64(0); next < n; {
				var records []*kgo.Record
				for range 1 + random.IntN(200) {
					if next < n {
						records = append(records, withKey(next, keys[next]))
						next++
					}
				}
				r.poll(0, records...)
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				if random.IntN(8) > 0 {
					continue
				}
				done := make(chan struct{})
				limit := time.Duration(random.IntN(3)) * 100 * time.Millisecond
				r.do(func(l *lane) { l.retire(nil, limit, time.Second, done) })
				<-done
				synctest.Wait()
				next = r.marked(0) // what a commit would say
				r.assign(0)
			}
			time.Sleep(time.Minute)
			r.wantMark(0, n)
		})
	}
}
