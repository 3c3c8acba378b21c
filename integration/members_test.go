//go:build integration && unix

package integration

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

// TestMembersComeAndGo runs two instances under load. A third joins and leaves
// in good order: nothing arrives twice. Then the same with one route held,
// which must not delay the others. Last, one instance is killed: its partitions
// move within the session timeout and five seconds.
func TestMembersComeAndGo(t *testing.T) {
	s := newScene(t, broker(t, realkafka.Version4), topics(t))
	held := s.createTopic(s.group + "-held")
	s.routes = len(s.topics) + 1
	s.settings["BRIDGE_TOPICS"] += "," + held
	s.toFake() // the held topic's destination does not exist yet
	one := s.start("one")
	two := s.start("two")
	together := s.awaitSpread(s.group, 2, s.routes)
	stop := s.run(records(t), perSecond(t))

	joined, left := s.joinAndLeave("three")
	graceful := s.truth.now().repeats
	if graceful > 0 {
		t.Errorf("%d duplicates after a join and a graceful leave, want none", graceful)
	}

	for n := range int32(300) {
		s.produce(&kgo.Record{Topic: held, Partition: n % partitions, Value: []byte("waits for its destination")})
	}
	eventually(t, time.Minute, "the route without a destination to be held", func() bool {
		return one.routes()[held].State == "held" || two.routes()[held].State == "held"
	})
	joinedHeld, leftHeld := s.joinAndLeave("four")
	if slower := leftHeld - left; slower > 3*time.Second {
		t.Errorf("a held route delays a leave by %v, want at most 3 s", slower)
	}
	if slower := joinedHeld - joined; slower > 3*time.Second {
		t.Errorf("a held route delays a join by %v, want at most 3 s", slower)
	}
	heldRepeats := s.truth.now().repeats - graceful

	one.Kill()
	moved := s.awaitSpread(s.group, 1, s.routes)
	if limit := sessionTimeout + 5*time.Second; moved > limit {
		t.Errorf("after a kill the partitions moved in %v, want at most %v", moved, limit)
	}
	s.createDestination(s.destination(held))
	stop()
	s.awaitAll(patience(t))
	if err := s.checkCommits(s.group); err != nil {
		t.Error(err)
	}
	s.summary("two instances at rest after %v; third joins in %v and leaves in %v with %d duplicates; "+
		"with a held route %v and %v with %d; killed: moved after %v",
		together, joined, left, graceful, joinedHeld, leftHeld, heldRepeats, moved)
}

// joinAndLeave adds an instance to the two that run, lets it work and stops it
// in good order. Both times are until the group is at rest.
func (s *scene) joinAndLeave(name string) (joined, left time.Duration) {
	s.t.Helper()
	b := s.start(name)
	joined = s.awaitSpread(s.group, 3, s.routes)
	s.awaitArrivals(200, time.Minute)
	s.pause(time.Second)
	began := time.Now()
	if exit := b.terminate(); b.ExitCode() != 0 || exit > stopLimit {
		s.t.Errorf("instance %s left with exit code %d after %v", name, b.ExitCode(), exit)
	}
	s.awaitSpread(s.group, 2, s.routes)
	return joined, since(began)
}
