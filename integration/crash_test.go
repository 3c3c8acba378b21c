//go:build integration && unix

package integration

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

// TestRoundTrip brings the mixed load to the emulator: the set of keys received
// is the set produced, nothing twice, and everything is committed.
func TestRoundTrip(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			s := newScene(t, broker(t, version), topics(t))
			s.toEmulator()
			b := s.start("one")
			began := time.Now()
			stop := s.run(records(t), 20*perSecond(t))
			b.awaitReady()
			stop()
			s.awaitAll(patience(t))
			took := since(began)
			s.awaitCommits(s.group)
			_, peak, err := b.Memory()
			if err != nil {
				t.Error(err)
			}
			exit := b.terminate()
			cpu := b.CPU()
			if n := s.truth.now().repeats; n > 0 {
				t.Errorf("%d duplicates without any fault", n)
			}
			s.summary("%v in all, bridge used %v CPU and %d MiB, exit code %d %v after SIGTERM",
				took, cpu.Round(10*time.Millisecond), peak>>20, b.ExitCode(), exit)
		})
	}
}

// TestKilledThreeTimes ends the bridge with kill -9 at random moments under
// load, on the emulator.
func TestKilledThreeTimes(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			s := newScene(t, broker(t, version), topics(t))
			s.toEmulator()
			killThrice(t, s)
		})
	}
}

// TestCommitsNeverPassAcknowledgements does the same on the strict fake, which
// also fails one request in ten, half of them after storing it, and looks at
// the broker's committed offsets all the while.
func TestCommitsNeverPassAcknowledgements(t *testing.T) {
	s := newScene(t, broker(t, realkafka.Version4), topics(t))
	s.toFake()
	n := s.rand.Uint64()
	s.fake.Script("", fakepubsub.Join(
		fakepubsub.Chance(n, 0.05, fakepubsub.Fault{Code: codes.Unavailable}),
		fakepubsub.Chance(n+1, 0.05, fakepubsub.Fault{Code: codes.DeadlineExceeded, Stored: true}),
		fakepubsub.Always(fakepubsub.Fault{Delay: 20 * time.Millisecond, Hold: 20 * time.Millisecond}),
	))
	stop := s.watchCommits(s.group)
	killThrice(t, s)
	t.Logf("committed offsets looked at %d times", stop())
	if err := s.checkCommits(s.group); err != nil {
		t.Error(err)
	}
}

// TestCommitLag brings a steady load over and measures how far the commits are
// behind, which is what a crash would repeat: they are sent each second.
func TestCommitLag(t *testing.T) {
	s := newScene(t, broker(t, realkafka.Version4), topics(t))
	s.toFake()
	stop := s.run(records(t), perSecond(t))
	b := s.start("one")
	b.awaitReady()
	s.awaitArrivals(3*perSecond(t), time.Minute) // the first of it was a backlog
	worst, tick := 0, time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for range 80 {
		<-tick.C
		received := s.truth.now().received // first, so that the lag is not flattered
		worst = max(worst, received-s.committed(s.group))
	}
	stop()
	s.awaitAll(patience(t))
	behind := time.Duration(float64(worst) / float64(perSecond(t)) * float64(time.Second)).Round(10 * time.Millisecond)
	if behind > 3*time.Second {
		t.Errorf("commits were %v behind, want about the second between two of them", behind)
	}
	s.summary("commits at most %d records behind, %v of load", worst, behind)
}

func killThrice(t *testing.T, s *scene) {
	t.Helper()
	stop := s.run(records(t), perSecond(t))
	for kill := range 3 {
		b := s.start("victim")
		s.awaitArrivals(100, time.Minute)
		began := time.Now()
		s.pause(3 * time.Second)
		b.Kill()
		after := since(began)
		s.awaitCommitted(s.group)
		now := s.truth.now()
		t.Logf("kill %d %v after the first arrivals: %d of %d records there, %d of them not committed",
			kill+1, after, now.received, now.produced, now.received-s.committed(s.group))
	}
	b := s.start("survivor")
	stop()
	s.awaitAll(patience(t))
	s.awaitCommits(s.group)
	exit := b.terminate()
	s.summary("3 kills, exit code %d %v after SIGTERM", b.ExitCode(), exit)
}
