package sink

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// route is what the batches of one route share.
type route struct {
	Route
	events func(fault.Event)
	// request and deadRequest name the topic for the routing header; their
	// messages are in the codec's hands. Never written.
	request, deadRequest *pubsubpb.PublishRequest
	deadHead             []byte // encoded field 1 of deadRequest

	published, parked, stored, retries, requests, bytes atomic.Int64
	inFlight                                            atomic.Int64
	sleeping                                            atomic.Int64 // long retry waits going on
	active                                              atomic.Int64 // calls of Publish

	// current is the hold, nil while the route runs. Written under mu.
	current atomic.Pointer[hold]

	mu        sync.Mutex // guards what follows
	reason    string     // of the hold
	since     time.Time  // when the hold, or what came before, ended or began
	lastError string
	lastAt    time.Time
	retrying  int       // batches whose last attempt failed
	retriedAt time.Time // when retrying left 0
	retryTold bool      // since then
	refusals  refusals
	recovered chan struct{} // closed and replaced at a success while somebody sleeps long
}

func newRoute(r Route, events func(fault.Event)) *route {
	if events == nil {
		events = func(fault.Event) {}
	}
	rt := &route{Route: r, events: events, request: &pubsubpb.PublishRequest{Topic: r.Destination}, recovered: make(chan struct{})}
	if r.DeadLetter != "" {
		rt.deadRequest = &pubsubpb.PublishRequest{Topic: r.DeadLetter}
		rt.deadHead = protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), r.DeadLetter)
	}
	return rt
}

// accepted notes n messages that the destination took, and wakes those who
// sleep long: what failed for them has passed.
func (r *route) accepted(n int) {
	r.published.Add(int64(n))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals.accept(n)
	if r.sleeping.Load() > 0 {
		close(r.recovered)
		r.recovered = make(chan struct{})
	}
}

// recovery returns a channel that is closed at the next accepted request.
func (r *route) recovery() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recovered
}

// note keeps what err says for the snapshot and returns it.
func (r *route) note(err error) string {
	text := safeText(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastError, r.lastAt = text, time.Now()
	return text
}

// retry counts a batch (in, by 1) among those that retry, or (by -1) no more.
func (r *route) retry(by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retrying == 0 {
		r.retriedAt, r.retryTold = time.Now(), false
	}
	if r.retrying += by; r.retrying == 0 && r.current.Load() == nil {
		r.since = time.Now()
	}
}

// retryQuiet is how long retries are nobody's business: Pub/Sub answers many
// that a second attempt settles.
const retryQuiet = 10 * time.Second

// tellRetrying tells, once until all is well again, that the route has been
// retrying for long, or that the attempt that began then was not answered at all.
func (r *route) tellRetrying(began time.Time, err error) {
	r.mu.Lock()
	due := !r.retryTold && (time.Since(r.retriedAt) >= retryQuiet || time.Since(began) >= attemptTimeout)
	r.retryTold = r.retryTold || due
	r.mu.Unlock()
	if due {
		r.tell(fault.RouteRetrying, "Pub/Sub does not take what is published to "+r.Destination+"; trying again", safeText(err))
	}
}

// tell emits an event about the route as a whole. Not under mu: the receiver
// may ask for a snapshot.
func (r *route) tell(kind fault.Kind, reason, cause string) {
	e := fault.Event{Kind: kind, Topic: r.Topic, Partition: -1, Reason: reason}
	if cause != "" {
		e.Err = errors.New(cause)
	}
	r.events(e)
}
