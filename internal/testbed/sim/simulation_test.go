//go:build synctests

package sim_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/history"
	"github.com/mskbridge/mskbridge/internal/testbed/sim"
)

const (
	// quietLimit is how long, in virtual time, a bridge may take to catch up
	// after everything is healthy again: a hold is probed each 60 s at least, a
	// hanging request ends after 60 s, metadata is a minute old at most.
	quietLimit = 10 * time.Minute
	// hangLimit is how long, in real time, the virtual clock may stand still.
	hangLimit = 2 * time.Minute
)

// seeds says which scenarios to run: SIM_SEED=S runs S, SIM_SEEDS=N runs N of
// them from SIM_FIRST on. With both, S is run N times: a seed fixes the faults,
// not the order in which goroutines run.
func seeds(t *testing.T) (first, n uint64, same bool) {
	t.Helper()
	number := func(name string, otherwise uint64) uint64 {
		text, set := os.LookupEnv(name)
		if !set {
			return otherwise
		}
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	if _, same = os.LookupEnv("SIM_SEED"); same {
		return number("SIM_SEED", 0), number("SIM_SEEDS", 1), true
	}
	return number("SIM_FIRST", 1), number("SIM_SEEDS", 12), false
}

// TestSimulation runs the real bridge through scenarios of faults in virtual
// time and has everything judged that both ends saw.
func TestSimulation(t *testing.T) {
	first, n, same := seeds(t)
	for i := range n {
		seed := first + i
		if same {
			seed = first
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			simulate(t, newPlan(seed))
		})
	}
}

// simulate runs one scenario under a watch: code that spins stops virtual time,
// and so does waiting for a lock that the bubble does not know.
func simulate(t *testing.T, p *plan) {
	t.Helper()
	replay := fmt.Sprintf("replay with SIM_SEED=%d go test -tags synctests -run TestSimulation ./internal/testbed/sim\n%v", p.seed, p)
	var seconds, seen atomic.Int64 // virtual
	var watch *time.Timer
	watch = time.AfterFunc(hangLimit, func() {
		if now := seconds.Load(); now != seen.Swap(now) || now == 0 {
			watch.Reset(hangLimit)
			return
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("virtual time stands still at second %d: %s\n%s", seconds.Load(), replay, stacks))
	})
	defer watch.Stop()
	synctest.Test(t, func(t *testing.T) { perform(t, p, &seconds) })
	if t.Failed() {
		t.Log(replay)
	}
}

// perform plays a plan: the rough phase, the healing, the quiet, the verdict.
func perform(t *testing.T, p *plan, seconds *atomic.Int64) {
	t.Helper()
	s := newStage(t, p)
	clock := make(chan struct{})
	s.busy.Go(func() { s.tell(seconds, clock) })
	watching, end := context.WithCancel(t.Context())
	s.busy.Go(func() {
		if err := s.w.Kafka.ExpireSilent(watching, group); err != nil {
			t.Error(err)
		}
	})
	s.play()
	s.heal()
	s.settle()
	s.readBack()
	for _, m := range s.members {
		m.terminate(t)
	}
	close(clock)
	end()
	s.busy.Wait()
	s.producer.Close()
	s.judge()
	// What the members' clients leave behind ends by itself, but virtual time
	// goes on only as long as the test does.
	s.sleepUntil(time.Now().Add(5 * time.Minute))
}

// tell counts the virtual seconds and looks at the members' loops.
func (s *stage) tell(seconds *atomic.Int64, end <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			seconds.Add(1)
		case <-end:
			return
		}
	}
}

// play runs the commands at their times.
func (s *stage) play() {
	began := time.Now()
	for _, c := range s.plan.commands {
		s.sleepUntil(began.Add(min(c.at, s.plan.length)))
		s.stale()
		if c.at <= s.plan.length {
			s.h.Note("command", c.what)
			c.do(s)
		}
	}
	s.sleepUntil(began.Add(s.plan.length))
}

func (s *stage) sleepUntil(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	<-timer.C
}

// heal ends every fault and adds a healthy member. A record for each partition
// must then get through, wherever it is stuck.
func (s *stage) heal() {
	s.h.Note("command", "heal everything")
	close(s.healed)
	for _, f := range s.faults {
		f.Remove()
	}
	s.weather.heal()
	s.create(sim.Destination(deadLetters))
	for i := range s.plan.routes {
		s.create(s.plan.routes[i].destination())
	}
	s.start(s.t)
	var last []*kgo.Record
	for i, n := range s.partitions {
		for part := range n {
			last = append(last, &kgo.Record{Topic: s.plan.routes[i].topic, Partition: part, Value: fmt.Append(nil, "last of ", part)})
		}
	}
	s.send(last)
	s.writing.Wait()
}

// settle waits until everything is published and committed and nothing is held.
func (s *stage) settle() {
	began := time.Now()
	why := ""
	for time.Since(began) < quietLimit {
		if why = s.restless(); why == "" {
			return
		}
		s.stale()
		s.sleepUntil(time.Now().Add(time.Second))
	}
	s.t.Errorf("no quiet %v after everything was healed: %s; %v", quietLimit, why, s.h.Summary())
}

// restless says what is not yet as it should be in the end.
func (s *stage) restless() string {
	if !s.h.Quiet() {
		return "not everything is stored and committed; " + s.unrest()
	}
	commits := s.w.Kafka.GroupInfo(group).Commits
	for i, n := range s.partitions {
		topic := s.plan.routes[i].topic
		for part := range n {
			if end := s.w.Kafka.PartitionInfo(topic, part).HighWatermark; commits[topic][part].Offset != end {
				return fmt.Sprintf("%s/%d is committed to %d of %d", topic, part, commits[topic][part].Offset, end)
			}
		}
	}
	return s.unrest()
}

// readBack reads the log itself: what the keys say of leader epochs must be so.
func (s *stage) readBack() {
	topics := make([]string, 0, len(s.plan.routes))
	left := map[history.Partition]int64{} // next of the end
	for i, n := range s.partitions {
		topic := s.plan.routes[i].topic
		topics = append(topics, topic)
		for part := range n {
			left[history.Partition{Topic: topic, ID: s.w.Kafka.TopicID(topic), Partition: part}] = s.w.Kafka.PartitionInfo(topic, part).HighWatermark
		}
	}
	cl, err := s.w.Kafka.Client(kgo.ConsumeTopics(topics...), kgo.KeepControlRecords(), kgo.FetchMaxBytes(64<<20), kgo.BrokerMaxReadBytes(128<<20),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), quietLimit)
	defer cancel()
	for len(left) > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			p := history.Partition{Topic: r.Topic, ID: s.w.Kafka.TopicID(r.Topic), Partition: r.Partition}
			if !r.Attrs.IsControl() {
				s.h.Read(p, r)
			}
			if r.Offset+1 >= left[p] {
				delete(left, p)
			}
		})
	}
	if len(left) > 0 {
		s.t.Errorf("the log could not be read to its end: %v", left)
	}
}

// judge has the whole history judged.
func (s *stage) judge() {
	if err := s.h.Check(); err != nil {
		s.t.Error(err)
		return
	}
	if err := s.h.CheckEvents(); err != nil {
		s.t.Error(err)
	}
	var broken []string
	for _, v := range s.w.PubSub.Violations() {
		broken = append(broken, v.Topic+": "+v.Why)
	}
	if broken != nil {
		s.t.Errorf("requests that break limits of Pub/Sub:\n%s", strings.Join(broken, "\n"))
	}
}
