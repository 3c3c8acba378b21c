//go:build synctests

package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/history"
	"github.com/mskbridge/mskbridge/internal/testbed/sim"
	"github.com/mskbridge/mskbridge/sink"
)

const (
	group       = "bridge"
	deadLetters = "dead-letters"
	// stopLimit is what the watchdog of the command allows for a stop.
	stopLimit = 9 * time.Second
	// closeLimit is what the command allows for closing the Pub/Sub connections.
	closeLimit = 300 * time.Millisecond
	// staleLimit is the age of a loop's stamp at which the platform restarts us.
	staleLimit = 60 * time.Second
)

// route is one topic of a scenario.
type route struct {
	topic      string
	partitions int32 // at the beginning
	ordered    bool
	parks      bool // has a dead-letter topic; else poison holds it
	format     message.Format
}

func (r *route) destination() string { return sim.Destination("to-" + r.topic) }

// member is one process of the bridge: both sides, joined as the command does.
type member struct {
	name    string
	links   *sim.Process
	in      *consumer.Consumer
	out     *sink.Sink
	end     context.CancelFunc
	ended   chan struct{} // closed when the process is gone
	leaving atomic.Bool   // told to stop, or killed
	killed  atomic.Bool
	told    time.Time     // when; before end
	took    time.Duration // from there to the end; before ended
}

// start starts a member. Its events go to the history while it lives.
func (s *stage) start(t testing.TB) *member {
	s.started++
	m := &member{name: fmt.Sprintf("bridge-%d", s.started), links: s.w.Process(), ended: make(chan struct{})}
	events := func(e fault.Event) {
		if !m.killed.Load() {
			s.event(e)
		}
	}
	in := consumer.Options{
		Brokers: s.w.Kafka.Brokers(), Group: group, Cluster: "msk", SessionTimeout: s.plan.session,
		Dial: m.links.Kafka.Dial, Sizes: s.plan.sizes, Events: events,
	}
	if _, wanted := os.LookupEnv("SIM_LOG"); wanted {
		in.ClientLog = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("member", m.name)
	}
	out := sink.Options{Emulator: sim.Endpoint, Connections: 2, Client: m.links.PubSubOptions(), Events: events}
	for i := range s.plan.routes {
		r := &s.plan.routes[i]
		ordering := consumer.OrderingNone
		if r.ordered {
			ordering = consumer.OrderingPartition
		}
		in.Routes = append(in.Routes, consumer.Route{Topic: r.topic, Destination: r.destination(), Ordering: ordering, Format: r.format})
		to := sink.Route{Topic: r.topic, Destination: r.destination()}
		if r.parks {
			to.DeadLetter = sim.Destination(deadLetters)
		}
		out.Routes = append(out.Routes, to)
	}
	ctx, end := context.WithCancel(context.Background()) //nolint:forbidigo // a process outlives the commands of its test
	m.end = end
	var err error
	if m.out, err = sink.New(ctx, out); err != nil {
		t.Fatal(err)
	}
	if m.in, err = consumer.New(in, m.out); err != nil {
		t.Fatal(err)
	}
	s.h.Note("start", m.name)
	go s.run(ctx, m)
	s.members = append(s.members, m)
	return m
}

// run is the process. When it is over, nothing of it reaches the world.
func (s *stage) run(ctx context.Context, m *member) {
	defer close(m.ended)
	if err := m.in.Run(ctx); err != nil {
		s.t.Errorf("%s: Run: %v", m.name, err)
	}
	closed := make(chan struct{})
	go func() { defer close(closed); _ = m.out.Close() }()
	late := time.NewTimer(closeLimit)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
	}
	m.took = time.Since(m.told)
	s.settled()
	m.links.Kill()
	if in := m.in.Snapshot().InHand; in != 0 {
		s.t.Errorf("%s: %d bytes are in hand after the end", m.name, in)
	}
}

// terminate is SIGTERM. It returns when the process is gone, in time or not.
func (m *member) terminate(t testing.TB) {
	if !m.leaving.Swap(true) {
		m.told = time.Now()
	}
	m.end()
	<-m.ended
	if m.took > stopLimit && !m.killed.Load() {
		t.Errorf("%s: the stop took %v, want at most %v", m.name, m.took, stopLimit)
	}
}

// kill is SIGKILL.
func (m *member) kill() {
	m.killed.Store(true)
	m.leaving.Store(true)
	m.told = time.Now()
	m.links.Kill()
	m.end()
}

// alive are the members that were neither killed nor told to stop.
func (s *stage) alive() (all []*member) {
	for _, m := range s.members {
		if !m.leaving.Load() {
			all = append(all, m)
		}
	}
	return all
}

// unrest says what still moves or is held in the members that live.
func (s *stage) unrest() string {
	var all []string
	for _, m := range s.alive() {
		in, out := m.in.Snapshot(), m.out.Snapshot()
		if in.InHand != 0 {
			all = append(all, fmt.Sprintf("%s: %d bytes in hand", m.name, in.InHand))
		}
		for i := range in.Routes {
			if in.Routes[i].Paused {
				all = append(all, fmt.Sprintf("%s: route %s is paused", m.name, in.Routes[i].Topic))
			}
		}
		for _, r := range out.Routes {
			if r.State != sink.Running {
				all = append(all, fmt.Sprintf("%s: route %s is %s: %s (%s)", m.name, r.Topic, r.State, r.Reason, r.LastError))
			}
		}
	}
	return strings.Join(all, "; ")
}

// stale reports loops that the platform's health check would call dead.
func (s *stage) stale() {
	for _, m := range s.alive() {
		for loop, stamp := range m.in.Snapshot().Loops {
			if age := time.Since(stamp); age > staleLimit {
				s.t.Errorf("%s: loop %q showed no life for %v", m.name, loop, age)
			}
		}
		if wait := m.out.Snapshot().OldestWait; !wait.IsZero() && time.Since(wait) > staleLimit {
			s.t.Errorf("%s: a retry wait showed no life for %v", m.name, time.Since(wait))
		}
	}
}

// event tells the judge what a bridge reports.
func (s *stage) event(e fault.Event) {
	p := history.Partition{Topic: e.Topic, ID: s.w.Kafka.TopicID(e.Topic), Partition: e.Partition}
	switch e.Kind {
	case fault.RecordParked:
		s.h.ParkReported(p, e.First)
	case fault.Loss:
		s.h.LossReported(p, e.First, e.Next)
	default:
		s.h.Note(string(e.Kind), e.Topic+" "+e.Reason)
	}
}

// retryable are the codes after which the same batch is sent again.
func retryable() []codes.Code {
	return []codes.Code{
		codes.Unavailable, codes.Internal, codes.Aborted, codes.Unknown,
		codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted,
	}
}

// heldCodes are the codes that hold a route.
func heldCodes() []codes.Code {
	return []codes.Code{
		codes.PermissionDenied, codes.NotFound, codes.Unauthenticated, codes.FailedPrecondition, codes.Unimplemented,
	}
}
