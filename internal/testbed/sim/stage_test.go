//go:build synctests

package sim_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/history"
	"github.com/mskbridge/mskbridge/internal/testbed/load"
	"github.com/mskbridge/mskbridge/internal/testbed/sim"
)

// stage is one run of a plan.
type stage struct {
	t        *testing.T
	plan     *plan
	w        *sim.World
	h        *history.History
	weather  *weather
	producer *fakekafka.Producer
	load     *load.Generator

	members    []*member
	started    int
	partitions []int32 // by route
	faults     []*kfake.FaultHandle
	writing    sync.WaitGroup // producers
	busy       sync.WaitGroup // stops, black holes
	healed     chan struct{}  // closed when the rough phase is over
	incarnated int            // transactions
}

// newStage builds the world of a plan.
func newStage(t *testing.T, p *plan) *stage {
	t.Helper()
	s := &stage{t: t, plan: p, healed: make(chan struct{})}
	o := history.Options{
		Seed: p.seed, Cluster: "msk", Group: group,
		Routes: map[string]string{}, DeadLetters: []string{sim.Destination(deadLetters)}, Envelopes: map[string]history.Envelope{},
	}
	to, topics := []string{deadLetters}, []string{}
	for i := range p.routes {
		r := &p.routes[i]
		o.Routes[r.destination()] = r.topic
		switch r.format {
		case message.EnvelopeBytes:
			o.Envelopes[r.topic] = history.EnvelopeBytes
		case message.EnvelopeJSON:
			o.Envelopes[r.topic] = history.EnvelopeJSON
		}
		to, topics = append(to, strings.TrimPrefix(r.destination(), sim.Destination(""))), append(topics, r.topic)
		s.partitions = append(s.partitions, r.partitions)
	}
	s.h = history.New(o)
	s.weather = newWeather(p, s.excuse, func(what string) { t.Error(what) })
	s.w = sim.New(t, sim.Options{Brokers: p.brokers, Destinations: to, Stores: []fakepubsub.Store{s.h, fakepubsub.OnStored(s.weather.parked)}})
	s.w.Kafka.Observe(s)
	s.w.PubSub.Script("", s.weather.script)
	s.load = load.New(load.Options{Seed: p.seed, Topics: topics, Partitions: 1, Records: p.records + 1})
	for i := range p.routes {
		if err := s.w.Kafka.Create(p.routes[i].topic, p.routes[i].partitions, map[string]string{"max.message.bytes": fmt.Sprint(load.MaxRecord)}); err != nil {
			t.Fatal(err)
		}
	}
	s.w.Kafka.NeverTruncated()
	var err error
	if s.producer, err = s.w.Kafka.Producer(kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond), kgo.RequestRetries(1000)); err != nil {
		t.Fatal(err)
	}
	return s
}

// The stage stands between the observer's calls and the judge: where something
// is rough, each new generation of the group may repeat what was not committed,
// since the drain before it may not have finished.

func (s *stage) CommitSent(c fakekafka.Commit)     { s.h.CommitSent(c) }
func (s *stage) CommitAccepted(c fakekafka.Commit) { s.h.CommitAccepted(c) }

func (s *stage) Assigned(a fakekafka.Assignment) {
	s.h.Assigned(a)
	s.excuse("generation")
}

// excuse notes a moment after which what is not committed may be repeated. In a
// calm scenario nothing is an excuse.
func (s *stage) excuse(why string) {
	if !s.plan.calm() {
		s.h.Incident(why, "")
	}
}

// record makes record i for the present partitions.
func (s *stage) record(i int) *kgo.Record {
	r := s.load.Record(i)
	n := s.partitions[s.routeOf(r.Topic)]
	r.Partition = int32(draw(s.plan.seed+3, fmt.Sprint(i)) * float64(n))
	return r
}

func (s *stage) routeOf(topic string) int {
	return slices.IndexFunc(s.plan.routes, func(r route) bool { return r.topic == topic })
}

func (s *stage) produce(first, n int) {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = s.record(first + i)
	}
	s.send(records)
}

func (s *stage) send(records []*kgo.Record) {
	s.writing.Go(func() {
		if err := s.producer.Produce(s.t.Context(), records...); err != nil {
			s.t.Errorf("the testbed's producer: %v", err)
			return
		}
		for _, r := range records {
			s.h.Produced(s.w.Kafka.TopicID(r.Topic), r)
		}
	})
}

// produceUnfit writes a record that no request to Pub/Sub can hold.
func (s *stage) produceUnfit(i int, salt int32) {
	s.send([]*kgo.Record{{
		Topic: s.plan.routes[i].topic, Partition: salt % s.partitions[i],
		Key: fmt.Append(nil, salt), Value: make([]byte, 10_000_000),
	}})
}

func (s *stage) transact(first, n int, commit bool) {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = s.record(first + i)
	}
	s.incarnated++
	id := fmt.Sprint("writer-", s.incarnated)
	s.writing.Go(func() {
		if err := s.w.Kafka.Transaction(s.t.Context(), id, commit, records...); err != nil {
			s.t.Errorf("the testbed's transaction: %v", err)
			return
		}
		for _, r := range records {
			if commit {
				s.h.Produced(s.w.Kafka.TopicID(r.Topic), r)
			} else {
				s.h.Aborted(s.w.Kafka.TopicID(r.Topic), r)
			}
		}
	})
}

func (s *stage) addPartition(i int) {
	cl, err := s.w.Kafka.Client()
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	for try := 0; ; try++ {
		made, err := kadm.NewClient(cl).CreatePartitions(s.t.Context(), 1, s.plan.routes[i].topic)
		if err = cmp.Or(err, made.Error()); err == nil {
			break
		}
		if try == 5 { // the controller moved too often
			return
		}
	}
	s.producer.Refresh()
	s.sleepUntil(time.Now().Add(time.Second)) // the producer knows it now
	s.partitions[i]++
}

// trim takes a share of the records of each partition of a topic, as retention
// does. The last one stays, so that a commit can reach the end.
func (s *stage) trim(i int, share float64) {
	topic := s.plan.routes[i].topic
	for n := range s.partitions[i] {
		info := s.w.Kafka.PartitionInfo(topic, n)
		start := info.LogStartOffset
		to := start + int64(share*float64(info.HighWatermark-1-start))
		if to <= start {
			continue
		}
		at := history.Partition{Topic: topic, ID: s.w.Kafka.TopicID(topic), Partition: n}
		if info := s.w.Kafka.GroupInfo(group); info == nil || len(info.Commits[topic]) == 0 {
			s.h.TrimmedUnseen(at, start, to)
		} else {
			s.h.Trimmed(at, start, to)
		}
		if err := s.w.Kafka.DeleteRecords(topic, n, to); err != nil {
			s.t.Errorf("the testbed's retention: %v", err)
		}
	}
}

func (s *stage) moveLeader(i int, n, node int32) {
	topic := s.plan.routes[i].topic
	n %= s.partitions[i]
	node %= int32(s.plan.brokers)
	if s.w.Kafka.LeaderFor(topic, n) == node {
		return
	}
	if err := s.w.Kafka.MoveTopicPartition(topic, n, node); err != nil {
		s.t.Errorf("the testbed's election: %v", err)
	}
}

func (s *stage) moveCoordinators() {
	if s.settled() {
		s.w.Kafka.RehashCoordinators()
	}
}

func (s *stage) restartBroker(node int32) {
	if s.settled() {
		s.excuse("a broker restarts")
		if err := s.w.Kafka.RestartBroker(node % int32(s.plan.brokers)); err != nil {
			s.t.Errorf("the testbed's broker: %v", err)
		}
	}
}

func (s *stage) create(destination string) {
	if err := s.w.PubSub.CreateTopics(destination); err != nil {
		s.t.Error(err)
	}
}

// settled waits until the group does not rebalance, and reports whether that
// came soon. kfake cannot lose a connection on which a member waits for a
// rebalance: the member stays in the group for ever, or the rebalance never
// ends. What must not happen then is tested against a real Kafka.
func (s *stage) settled() bool {
	for range 100 {
		info := s.w.Kafka.GroupInfo(group)
		if info == nil || info.State == "Stable" || info.State == "Empty" {
			return true
		}
		s.sleepUntil(time.Now().Add(200 * time.Millisecond))
	}
	return false
}

// chosen is one of the members that live, nil for none.
func (s *stage) chosen(k int) *member {
	all := s.alive()
	if len(all) == 0 {
		return nil
	}
	return all[k%len(all)]
}

func (s *stage) terminate(k int) {
	if m := s.chosen(k); m != nil {
		s.h.Note("terminate", m.name)
		m.told = time.Now()
		m.leaving.Store(true)
		s.busy.Go(func() { m.terminate(s.t) })
	}
}

func (s *stage) kill(k int) {
	if m := s.chosen(k); m != nil && s.settled() {
		s.h.Incident("kill", m.name)
		m.kill()
	}
}

func (s *stage) cut(k int, kafka, pubsub bool) {
	m := s.chosen(k)
	if m == nil || kafka && !s.settled() {
		return
	}
	s.excuse("cut")
	if kafka {
		m.links.Kafka.Cut()
	}
	if pubsub {
		m.links.PubSub.Cut()
	}
}

// hole lets a member's links swallow everything for some time. Requests time
// out and are sent again while it lasts, and all of them may arrive in the end.
func (s *stage) hole(k int, kafka, pubsub bool, length time.Duration) {
	m := s.chosen(k)
	if m == nil || kafka && !s.settled() {
		return
	}
	set := func(on bool) {
		if kafka {
			m.links.Kafka.BlackHole(on)
		}
		if pubsub {
			m.links.PubSub.BlackHole(on)
		}
	}
	s.excuse("black hole")
	set(true)
	s.busy.Go(func() {
		end := time.NewTimer(length)
		defer end.Stop()
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for over := false; !over; {
			select {
			case <-end.C:
				over = true
			case <-s.healed:
				over = true
			case <-tick.C:
				s.excuse("black hole goes on")
			}
		}
		s.excuse("black hole ends")
		set(false)
	})
}
