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
	stop := s.run(records(t), perSecond(t))
	b.awaitReady()
	s.awaitArrivals(500, time.Minute)
	began := time.Now()
	for node := range 3 {
		s.k.own.Stop(node)
		s.awaitArrivals(500, time.Minute) // with two nodes it goes on
		if err := s.k.own.Restart(t.Context(), node); err != nil {
			t.Fatal(err)
		}
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
