//go:build synctests

package sim_test

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/testbed/sim"
)

// writeRecords: what producers do.
func (p *plan) writeRecords(r *rand.Rand) {
	for range 3 + r.IntN(10) {
		n := 1 + r.IntN(60)
		p.records += n
		first := p.records - n
		p.add(p.moment(r), func(s *stage) { s.produce(first, n) }, "produce %d records", n)
	}
	p.some(r, "transactions", 4, func() {
		n, commit, first := 1+r.IntN(20), r.IntN(2) == 0, p.records
		p.records += n
		p.add(p.moment(r), func(s *stage) { s.transact(first, n, commit) }, "transaction of %d records, commit %v", n, commit)
	})
	p.some(r, "unfit", 2, func() {
		i, salt := p.anyRoute(r), r.Int32()
		p.add(p.moment(r), func(s *stage) { s.produceUnfit(i, salt) }, "produce a record that never fits to %s", p.routes[i].topic)
		p.routes[i].parks = true // else it would hold the route for ever
	})
	p.some(r, "partitions added", 1, func() {
		i := p.anyRoute(r)
		p.add(p.moment(r), func(s *stage) { s.addPartition(i) }, "add a partition to %s", p.routes[i].topic)
	})
	p.some(r, "trim", 3, func() {
		i, share := p.anyRoute(r), r.Float64()
		p.add(p.moment(r), func(s *stage) { s.trim(i, share) }, "delete %.0f%% of the records of %s", share*100, p.routes[i].topic)
	})
}

// writeMembers: who runs when. There is always a first member at the start.
func (p *plan) writeMembers(r *rand.Rand) {
	p.add(0, func(s *stage) { s.start(s.t) }, "start a member")
	p.some(r, "members", 4, func() {
		from, to := p.window(r, 40*time.Second)
		p.add(from, func(s *stage) {
			if len(s.alive()) < 3 {
				s.start(s.t)
			}
		}, "start a member")
		k := r.IntN(3)
		p.add(to, func(s *stage) { s.terminate(k) }, "terminate a member")
	})
	p.some(r, "kill", 4, func() {
		k, at := r.IntN(3), p.moment(r)
		p.add(at, func(s *stage) { s.kill(k) }, "kill a member")
		p.add(at+time.Duration(r.IntN(15000))*time.Millisecond, func(s *stage) {
			if len(s.alive()) < 3 {
				s.start(s.t)
			}
		}, "start a member")
	})
}

// writePubSub: what Pub/Sub and the way to it do, beside faults by chance.
func (p *plan) writePubSub(r *rand.Rand) {
	p.some(r, "topic missing", 2, func() {
		to := p.routes[p.anyRoute(r)].destination()
		p.during(r, 60*time.Second, "topic "+to+" is missing", func(s *stage) { s.w.PubSub.RemoveTopic(to) },
			func(s *stage) { s.create(to) })
	})
	p.some(r, "dead letters missing", 2, func() {
		to := sim.Destination(deadLetters)
		p.during(r, 60*time.Second, "the dead-letter topic is missing", func(s *stage) { s.w.PubSub.RemoveTopic(to) },
			func(s *stage) { s.create(to) })
	})
	p.some(r, "topic denied", 2, func() {
		to, code := p.routes[p.anyRoute(r)].destination(), heldCodes()[r.IntN(len(heldCodes()))]
		p.during(r, 90*time.Second, to+" answers "+code.String(), func(s *stage) { s.weather.deny(to, code) },
			func(s *stage) { s.weather.deny(to, codes.OK) })
	})
	p.some(r, "dead letters denied", 2, func() {
		to := sim.Destination(deadLetters)
		p.during(r, 60*time.Second, "the dead-letter topic is forbidden", func(s *stage) { s.weather.deny(to, codes.PermissionDenied) },
			func(s *stage) { s.weather.deny(to, codes.OK) })
	})
	p.some(r, "refuses everything", 2, func() {
		to := p.routes[p.anyRoute(r)].destination()
		p.during(r, 60*time.Second, to+" refuses everything", func(s *stage) { s.weather.refuse(to, true) },
			func(s *stage) { s.weather.refuse(to, false) })
	})
	p.some(r, "go away", 3, func() {
		p.add(p.moment(r), func(s *stage) { s.w.PubSub.GoAway() }, "Pub/Sub sends GOAWAY")
	})
	p.some(r, "cut all", 2, func() {
		p.add(p.moment(r), func(s *stage) { s.excuse("cut all"); s.w.PubSub.CutAll() }, "Pub/Sub cuts all connections")
	})
	p.some(r, "cut pubsub", 4, func() {
		k := r.IntN(3)
		p.add(p.moment(r), func(s *stage) { s.cut(k, false, true) }, "cut a member's connections to Pub/Sub")
	})
	p.some(r, "hole pubsub", 2, func() { p.hole(r, false, true) })
}

// during switches something on and off again.
func (p *plan) during(r *rand.Rand, limit time.Duration, what string, on, off func(*stage)) {
	from, to := p.window(r, limit)
	p.add(from, on, "%s", what)
	p.add(to, off, "no more: %s", what)
}

// hole makes a black hole of a member's links.
func (p *plan) hole(r *rand.Rand, kafka, pubsub bool) {
	k := r.IntN(3)
	from, to := p.window(r, 100*time.Second)
	p.add(from, func(s *stage) { s.hole(k, kafka, pubsub, to-from) },
		"black hole for %v between a member and kafka %v, Pub/Sub %v", to-from, kafka, pubsub)
}

// writeKafka: what brokers and the way to them do.
func (p *plan) writeKafka(r *rand.Rand) {
	p.some(r, "leaders", 6, func() {
		i, part, node := p.anyRoute(r), r.Int32N(4), r.Int32N(3)
		p.add(p.moment(r), func(s *stage) { s.moveLeader(i, part, node) }, "move the leader of a partition of %s", p.routes[i].topic)
	})
	p.some(r, "coordinators", 3, func() {
		p.add(p.moment(r), (*stage).moveCoordinators, "coordinators move")
	})
	p.some(r, "brokers", 2, func() {
		node := r.Int32N(3)
		p.add(p.moment(r), func(s *stage) { s.restartBroker(node) }, "a broker restarts")
	})
	p.some(r, "cut kafka", 4, func() {
		k := r.IntN(3)
		p.add(p.moment(r), func(s *stage) { s.cut(k, true, false) }, "cut a member's connections to Kafka")
	})
	p.some(r, "hole kafka", 2, func() { p.hole(r, true, false) })
	p.some(r, "hole both", 1, func() { p.hole(r, true, true) })
	for _, e := range brokerErrors() {
		p.some(r, e.kind, 4, func() {
			key := e.keys[r.IntN(len(e.keys))]
			err, n := e.errs[r.IntN(len(e.errs))], 1+r.IntN(6)
			p.add(p.moment(r), func(s *stage) {
				s.faults = append(s.faults, s.w.Kafka.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: n}))
			}, "%d times %s is answered with %s", n, key.Name(), err.Message)
		})
	}
}

type brokerError struct {
	kind string
	keys []kmsg.Key
	errs []*kerr.Error
}

func brokerErrors() []brokerError {
	moved := []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress}
	return []brokerError{
		{"commit errors", []kmsg.Key{kmsg.OffsetCommit}, append(moved,
			kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.GroupAuthorizationFailed, kerr.UnknownServerError)},
		{"fetch errors", []kmsg.Key{kmsg.Fetch}, []*kerr.Error{
			kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable, kerr.ReplicaNotAvailable,
			kerr.KafkaStorageError, kerr.UnknownServerError, kerr.TopicAuthorizationFailed, kerr.CorruptMessage,
		}},
		{"group errors", []kmsg.Key{kmsg.Heartbeat, kmsg.SyncGroup}, append(moved,
			kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress)},
		{"group errors", []kmsg.Key{kmsg.JoinGroup}, append(moved, kerr.UnknownMemberID)},
		{"offset errors", []kmsg.Key{kmsg.OffsetFetch}, append(moved, kerr.UnstableOffsetCommit)},
		{"offset errors", []kmsg.Key{kmsg.ListOffsets}, []*kerr.Error{kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.LeaderNotAvailable}},
	}
}
