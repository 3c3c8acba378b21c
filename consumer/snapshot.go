package consumer

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Snapshot is the state of the consumer at one moment. It shares nothing with it.
type Snapshot struct {
	// Answered is whether a broker has answered since the start.
	Answered bool
	// Joined is whether we are a member of the group with a valid assignment.
	Joined bool
	// Trouble is what is wrong with the connection or the group, if anything.
	Trouble Trouble
	// Window and InHand are bytes: the budget, and what lies between poll and
	// acknowledgement.
	Window, InHand int64
	// Loops has the last wake of each loop. One older than 60 s is stuck.
	Loops  map[string]time.Time
	Routes []RouteSnapshot // sorted by topic
}

// RouteSnapshot is the Kafka side of one route.
type RouteSnapshot struct {
	Topic      string
	Partitions int   // assigned to us
	Fetched    int64 // records that brokers sent, those fetched again after a pause included
	Polled     int64 // records, each once
	Settled    int64 // records acknowledged or parked
	Batches    int64 // sent
	Abandoned  int64 // batches given up at a revoke or the end
	InFlight   int64 // requests
	InHand     int64 // bytes
	Paused     bool
	Pauses     int64
	Oldest     time.Time // when the oldest open record was polled; zero for none
	Framing    string    // of a schema registry around the latest value that was looked at; "" for none
	Trouble    Trouble   // on the Kafka side
}

// Snapshot may be called at any time.
func (c *Consumer) Snapshot() Snapshot {
	inHand, hands := c.gate.hands()
	s := Snapshot{
		Answered: c.answered.Load(), Joined: c.joined.Load(), Trouble: c.troubles.of(""),
		Window: c.opts.Sizes.Window, InHand: inHand,
		Loops: map[string]time.Time{}, Routes: make([]RouteSnapshot, 0, len(c.lanes.all())),
	}
	loop := func(name string, stamp int64) {
		if stamp != 0 {
			s.Loops[name] = time.Unix(0, stamp)
		}
	}
	loop("poll", c.pollStamp.Load())
	loop("look", c.lookStamp.Load())
	for topic, l := range c.lanes.all() {
		loop("lane "+topic, l.stats.stamp.Load())
		r := RouteSnapshot{
			Topic: topic, Partitions: int(l.stats.partitions.Load()),
			Fetched: l.stats.fetched.Load(), Polled: l.stats.polled.Load(), Settled: l.stats.settled.Load(),
			Batches: l.stats.batches.Load(), Abandoned: l.stats.abandoned.Load(), InFlight: l.stats.inFlight.Load(),
			InHand: hands[topic].bytes, Paused: hands[topic].paused, Pauses: hands[topic].pauses,
			Trouble: cmp.Or(c.troubles.of(topic), c.blocks.of(topic)),
		}
		if oldest := l.stats.oldest.Load(); oldest != 0 {
			r.Oldest = time.Unix(0, oldest)
		}
		if f := l.stats.framing.Load(); f != nil {
			r.Framing = f.String()
		}
		s.Routes = append(s.Routes, r)
	}
	slices.SortFunc(s.Routes, func(a, b RouteSnapshot) int { return strings.Compare(a.Topic, b.Topic) })
	return s
}
