package sink

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

const (
	// probeMin and probeMax bound the time between two probes of a held route,
	// which doubles from one to the other.
	probeMin = 5 * time.Second
	probeMax = 60 * time.Second
)

// cause says what a hold waits for.
type cause uint8

const (
	// destinationFails: the destination is missing, forbidden or broken. Any
	// record may probe, and even a refusal of that record ends the hold: the
	// destination looks at records again.
	destinationFails cause = iota + 1
	// recordRefused: one record can neither be published nor parked. Only it
	// can tell when the hold is over.
	recordRefused
	// deadLetterFails: a record waits for the dead-letter topic.
	deadLetterFails
	// storeFails: a record's value waits for the store.
	storeFails
	// refusesEverything: too many records in a row were refused to be poison.
	// Any record may probe; different ones do.
	refusesEverything
)

// hold is one period in which a route is held. One publication at a time has
// the right to probe; the others wait.
type hold struct {
	cause    cause
	reason   string        // at its beginning; the route has the latest
	released chan struct{} // closed by release
	// token holds the right to probe while nobody has it. Written by whoever
	// leaves it, read by waiting publications, in turn.
	token chan struct{}
	delay time.Duration // until the next probe; only for who has the right
}

// pass leaves the right to probe to another publication.
func (h *hold) pass() { h.token <- struct{}{} }

// hold holds the route, if it is not held already. It reports whether the
// caller now has the right to probe: it has when the hold began, or when a hold
// of the same cause had lost its prober.
func (r *route) hold(c cause, reason string, err error) (h *hold, mine bool) {
	text := r.note(err)
	r.mu.Lock()
	h, mine = r.holdLocked(c, reason)
	r.mu.Unlock()
	if mine {
		r.tell(fault.RouteHeld, reason, text)
		return h, true
	}
	if h.cause != c {
		return h, false
	}
	select {
	case <-h.token:
		r.renew(h, reason, err)
		return h, true
	default:
		return h, false
	}
}

// holdLocked reports whether the hold is new.
func (r *route) holdLocked(c cause, reason string) (*hold, bool) {
	if h := r.current.Load(); h != nil {
		return h, false
	}
	h := &hold{cause: c, reason: reason, released: make(chan struct{}), token: make(chan struct{}, 1), delay: probeMin}
	r.reason, r.since = reason, time.Now()
	r.current.Store(h)
	return h, true
}

// renew gives a hold that goes on its latest reason.
func (r *route) renew(h *hold, reason string, err error) {
	text := r.note(err)
	r.mu.Lock()
	changed := r.current.Load() == h && r.reason != reason
	if changed {
		r.reason = reason
	}
	r.mu.Unlock()
	if changed {
		r.tell(fault.RouteHeld, reason, text)
	}
}

// release ends h, if it is the hold of now.
func (r *route) release(h *hold) {
	r.mu.Lock()
	if h == nil || r.current.Load() != h {
		r.mu.Unlock()
		return
	}
	r.current.Store(nil)
	r.reason, r.since = "", time.Now()
	if h.cause == refusesEverything {
		r.refusals.reset()
	}
	close(h.released)
	r.mu.Unlock()
	r.tell(fault.RouteReleased, h.reason, "")
}

// sitOut waits until h is over, or probes when it gets the right to.
func (p *publication) sitOut(ctx context.Context, h *hold) error {
	p.batch.SetStalled(true)
	switch p.sink.waits.wait(ctx, forEver, h.released, h.token) {
	case wokeEnded:
		return ctx.Err()
	case wokeToken:
		return p.probe(ctx, h)
	default:
		return nil
	}
}

// probe sends single messages of its own batch, slowly, until one of them ends
// h. A message that is accepted is delivered like any other. The caller has the
// right to probe; when ctx ends it goes to another publication.
func (p *publication) probe(ctx context.Context, h *hold) error {
	p.batch.SetStalled(true)
	for {
		switch p.sink.waits.wait(ctx, h.delay, h.released, nil) {
		case wokeEnded:
			h.pass()
			return ctx.Err()
		case wokeSignal:
			return nil
		default:
		}
		m := p.pick(h)
		err := p.send(ctx, part{m, m + 1})
		if err == nil {
			p.deliver(m)
			p.route.release(h)
			return nil
		}
		if ctx.Err() != nil {
			h.pass()
			return ctx.Err()
		}
		if p.judge(h, err) {
			return nil
		}
		h.delay = min(2*h.delay, probeMax)
		if h.cause == refusesEverything {
			h.pass() // another batch's record may be a better one
			return nil
		}
	}
}

// judge draws the conclusion from a probe that failed, and reports whether h
// is over nevertheless.
func (p *publication) judge(h *hold, err error) bool {
	switch class := classify(err); {
	case class == fault.Poison && (h.cause == destinationFails || h.cause == deadLetterFails):
		// The destination looks at records again; or the batch that waited for the
		// dead-letter topic was taken away, and this record is the next to ask it.
		p.route.note(err)
		p.route.release(h)
		return true
	case class == fault.Poison && h.cause == recordRefused:
		p.route.renew(h, p.blocked(p.pick(h), refusedBy(err)), err)
	case class == fault.Poison:
		p.route.renew(h, h.reason, err)
	case class == fault.Held:
		p.route.renew(h, advice(err, p.route.Destination), err)
	default:
		p.route.note(err)
	}
	return false
}

// pick chooses the message that probes: the first that is not delivered, which
// keeps the order. Where a destination refused everything, any one of an
// unordered batch: behind a run of poison there may be good records.
func (p *publication) pick(h *hold) int {
	first := p.todo[len(p.todo)-1].from
	if h.cause != refusesEverything || hasOrderingKey(p.batch.Part(first, first+1)) {
		return first
	}
	open := 0
	for _, u := range p.todo {
		open += u.len()
	}
	k := rand.IntN(open)
	for _, u := range p.todo {
		if k < u.len() {
			return u.from + k
		}
		k -= u.len()
	}
	return first
}
