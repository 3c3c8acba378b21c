//go:build integration && unix

package integration

import (
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

// TestRollingRestart stops and starts each of three brokers under load.
func TestRollingRestart(t *testing.T) {
	s := newScene(t, threeNodes(t, realkafka.Version4), topics(t))
	s.toFake()
	b := s.start("one")
	stop := s.run(records(t)/2, max(1, perSecond(t)/4)) // it lasts as long as the brokers take
	b.awaitReady()
	s.awaitArrivals(500, time.Minute)
	began := time.Now()
	for node := range 3 {
		step := time.Now()
		s.k.own.Stop(node)
		stopped := since(step)
		s.awaitArrivals(500, time.Minute) // with two nodes it goes on
		step = time.Now()
		if err := s.k.own.Restart(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		t.Logf("node %d stopped in %v and was back in %v", node, stopped, since(step))
		s.awaitArrivals(500, time.Minute)
	}
	took := since(began)
	stop()
	s.awaitAll(patience(t))
	s.awaitCommits(s.group)
	if err := s.checkCommits(s.group); err != nil {
		t.Error(err)
	}
	exit := b.terminate()
	s.summary("rolling restart in %v, exit code %d %v after SIGTERM", took, b.ExitCode(), exit)
}
