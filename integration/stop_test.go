//go:build integration && unix

package integration

import (
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

// stopLimit is what Cloud Run grants between SIGTERM and SIGKILL.
const stopLimit = 10 * time.Second

// TestStop sends SIGTERM under load, with each side healthy or stuck. Nothing
// may be committed that was not acknowledged, and after a healthy stop the next
// instance repeats nothing.
func TestStop(t *testing.T) {
	nothing := func(*scene) {}
	tests := []struct {
		name        string
		spoil, heal func(*scene)
		clean       bool // no duplicate after it
	}{
		{"healthy", nothing, nothing, true},
		{"stalled sink", (*scene).stall, (*scene).flow, false},
		{"frozen kafka", (*scene).freeze, (*scene).thaw, false},
		{
			"both stuck",
			func(s *scene) { s.stall(); s.freeze() },
			func(s *scene) { s.flow(); s.thaw() },
			false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, ownBroker(t, realkafka.Version4), topics(t))
			s.toFake()
			stop := s.run(records(t)/3, perSecond(t))
			b := s.start("one")
			b.awaitReady()
			s.awaitArrivals(500, time.Minute)
			t.Cleanup(func() { tt.heal(s) }) // the broker is shared
			tt.spoil(s)
			s.pause(2 * time.Second)
			took := b.terminate()
			if took > stopLimit {
				t.Errorf("the stop took %v, want at most %v", took, stopLimit)
			}
			tt.heal(s)
			if err := s.checkCommits(s.group); err != nil {
				t.Error(err)
			}
			code, before := b.ExitCode(), s.truth.now().repeats
			next := s.start("two")
			stop()
			s.awaitAll(patience(t))
			next.awaitReady()
			repeats := s.truth.now().repeats
			if tt.clean && (repeats > 0 || code != 0) {
				t.Errorf("after a healthy stop: exit code %d and %d duplicates, want none", code, repeats)
			}
			s.summary("exit code %d, %v after SIGTERM; %d duplicates before the next instance, %d in all",
				code, took, before, repeats)
		})
	}
}

// stall lets the sink never answer.
func (s *scene) stall() { s.fake.Script("", fakepubsub.Always(fakepubsub.Fault{Hang: true})) }

func (s *scene) flow() { s.fake.Script("", nil) }

// freeze stops the only broker where it is.
func (s *scene) freeze() {
	s.t.Helper()
	if err := s.k.own.Freeze(0); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) thaw() {
	s.t.Helper()
	if err := s.k.own.Thaw(0); err != nil {
		s.t.Fatal(err)
	}
}
