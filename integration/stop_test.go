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
	tests := []struct {
		name  string
		spoil func(*testing.T, *scene)
		heal  func(*testing.T, *scene)
		clean bool // no duplicate after it
	}{
		{"healthy", func(*testing.T, *scene) {}, func(*testing.T, *scene) {}, true},
		{"stalled sink",
			func(_ *testing.T, s *scene) { s.fake.Script("", fakepubsub.Always(fakepubsub.Fault{Hang: true})) },
			func(_ *testing.T, s *scene) { s.fake.Script("", nil) }, false},
		{"frozen kafka",
			func(t *testing.T, s *scene) { must(t, s.k.own.Freeze(0)) },
			func(t *testing.T, s *scene) { must(t, s.k.own.Thaw(0)) }, false},
		{"both stuck",
			func(t *testing.T, s *scene) {
				s.fake.Script("", fakepubsub.Always(fakepubsub.Fault{Hang: true}))
				must(t, s.k.own.Freeze(0))
			},
			func(t *testing.T, s *scene) {
				s.fake.Script("", nil)
				must(t, s.k.own.Thaw(0))
			}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, ownBroker(t, realkafka.Version4), topics(t))
			s.toFake()
			stop := s.run(records(t)/3, perSecond(t))
			b := s.start("one")
			b.awaitReady()
			s.awaitArrivals(500, time.Minute)
			t.Cleanup(func() { tt.heal(t, s) }) // the broker is shared
			tt.spoil(t, s)
			s.pause(2 * time.Second)
			took := b.terminate()
			if took > stopLimit {
				t.Errorf("the stop took %v, want at most %v", took, stopLimit)
			}
			tt.heal(t, s)
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
