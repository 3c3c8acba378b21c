//go:build integration && unix

package integration

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

const mib = 1 << 20

// TestMemory gives one route of 24 a backlog, and 20 a record a second, with a
// sink that takes 30 ms and 256 MiB for the bridge: it stays below 300 MiB, and
// the quiet routes below a second.
func TestMemory(t *testing.T) {
	const quiet, value = 20, 1000
	backlog := number(t, "MSKBRIDGE_BACKLOG_MB", 200) * 1_000_000 / value
	s := newScene(t, broker(t, realkafka.Version4), quiet+1)
	for _, name := range []string{"-a", "-b", "-c"} { // nothing ever comes there
		s.settings["BRIDGE_TOPICS"] += "," + s.createTopic(s.group+name)
	}
	delays := &latencies{}
	s.toFake(delays)
	s.fake.Script("", fakepubsub.Always(fakepubsub.Fault{Delay: 30 * time.Millisecond}))
	busy, rest := s.topics[quiet], s.topics[:quiet]
	delays.skip = s.destination(busy)
	s.fill(busy, backlog, value)

	b := s.start("one")
	b.awaitReady()
	began, ended := time.Now(), make(chan struct{})
	var trickle sync.WaitGroup
	trickle.Go(func() { s.trickle(rest, ended) })
	stop := sync.OnceFunc(func() {
		close(ended)
		trickle.Wait()
	})
	defer stop()
	eventually(t, patience(t)+time.Duration(backlog)*100*time.Microsecond, "the backlog to arrive", func() bool {
		return s.truth.now().received >= backlog
	})
	took := time.Since(began)
	stop()
	s.awaitAll(time.Minute)
	_, peak, err := b.Memory()
	if err != nil {
		t.Fatal(err)
	}
	exit := b.terminate()
	cpu := b.CPU()
	p50, p99, worst := delays.quantiles()
	if limit := int64(300 * mib); peak > limit && !race() {
		t.Errorf("peak resident size %d MiB, want at most %d", peak/mib, limit/mib)
	}
	if p99 > time.Second {
		t.Errorf("latency of quiet routes: p99 %v, want below 1 s", p99)
	}
	s.summary("%.0f records/s, %.2f CPU-s per million, peak %d MiB; quiet routes p50 %v, p99 %v, max %v; exit %v after SIGTERM",
		float64(backlog)/took.Seconds(), cpu.Seconds()/float64(backlog)*1e6, peak/mib, p50, p99, worst, exit)
}

// fill produces n records of random bytes, which no codec makes smaller.
func (s *scene) fill(topic string, n, size int) {
	s.t.Helper()
	random := rand.NewChaCha8([32]byte{byte(s.seed)})
	failed := func(err error) { s.t.Errorf("producing: %v", err) }
	for i := range n {
		value := make([]byte, size)
		_, _ = random.Read(value)
		s.send(s.t.Context(), &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value}, failed)
	}
	if err := s.client.Flush(s.t.Context()); err != nil {
		s.t.Fatalf("producing: %v", err)
	}
}

// trickle sends the time of day to every topic once a second.
func (s *scene) trickle(topics []string, ended <-chan struct{}) {
	tick := time.NewTicker(time.Second / time.Duration(len(topics)))
	defer tick.Stop()
	failed := func(err error) { s.t.Errorf("producing: %v", err) }
	for n := 0; ; n++ {
		select {
		case <-ended:
			if err := s.client.Flush(s.t.Context()); err != nil {
				s.t.Errorf("producing: %v", err)
			}
			return
		case <-tick.C:
			now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
			s.send(s.t.Context(), &kgo.Record{Topic: topics[n%len(topics)], Value: now}, failed)
		}
	}
}

// latencies is a store that reads when its messages were produced.
type latencies struct {
	skip string // topic that carries no times

	mu  sync.Mutex // guards all
	all []time.Duration
}

// Stored implements fakepubsub.Store.
func (l *latencies) Stored(topic string, ms []fakepubsub.Message) {
	if topic == l.skip {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range ms {
		sent := time.Unix(0, int64(binary.BigEndian.Uint64(ms[i].Data)))
		l.all = append(l.all, time.Since(sent))
	}
}

// Acknowledged does nothing.
func (*latencies) Acknowledged(string, []fakepubsub.Message) {}

func (l *latencies) quantiles() (p50, p99, worst time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(l.all)
	at := func(q float64) time.Duration {
		return l.all[int(q*float64(len(l.all)-1))].Round(time.Millisecond)
	}
	return at(0.5), at(0.99), at(1)
}
