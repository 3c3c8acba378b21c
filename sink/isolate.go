package sink

import (
	"context"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// isolate narrows down which record of u the destination refuses. A part of
// several is cut in halves, which go out in order: p refused records of n cost
// at most 2 p log2(n) requests more. A part of one is the record; it is parked,
// or holds the route.
func (p *publication) isolate(ctx context.Context, u part, err error) error {
	last := len(p.todo) - 1
	if u.len() > 1 {
		p.route.note(err)
		middle := u.from + u.len()/2
		p.todo = append(p.todo[:last], part{middle, u.to}, part{u.from, middle})
		return nil
	}
	refusal := refusedBy(err)
	if !p.route.parks(refusal.Reason) {
		h, mine := p.route.hold(recordRefused, p.blocked(u.from, refusal), err)
		if mine {
			return p.probe(ctx, h)
		}
		return nil
	}
	if !p.route.mayPark(err) {
		return nil // held: the record is sent again when that is over
	}
	if err := p.park(ctx, u.from, refusal); err != nil {
		return err
	}
	p.todo = p.todo[:last]
	return nil
}

// refusedBy is the refusal of a record by the server, without its words: they
// may repeat what they refuse.
func refusedBy(err error) *message.Refusal {
	return &message.Refusal{Reason: message.Refused, Detail: "Pub/Sub answered " + codeOf(err).String()}
}

// mayPark decides whether a refused record is poison, and not one of too many
// that a destination refuses. One lock covers counting and holding, so that
// however many batches isolate at once, fewer than refusedInRow are parked.
func (r *route) mayPark(err error) bool {
	text := r.note(err)
	r.mu.Lock()
	if r.current.Load() != nil {
		r.mu.Unlock()
		return false
	}
	if !r.refusals.refuse() {
		r.mu.Unlock()
		return true
	}
	reason := "destination refuses everything: " + advice(err, r.Destination)
	h, _ := r.holdLocked(refusesEverything, reason)
	h.pass() // whoever waits may probe
	r.mu.Unlock()
	r.tell(fault.RouteHeld, reason, text)
	return false
}

// hasOrderingKey reports whether an encoded message field has an ordering key.
func hasOrderingKey(field []byte) bool {
	const orderingKey = 5 // of PubsubMessage
	_, _, n := protowire.ConsumeTag(field)
	body, _ := protowire.ConsumeBytes(field[max(n, 0):])
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 || number == orderingKey {
			return n > 0
		}
		skip := protowire.ConsumeFieldValue(number, kind, body[n:])
		if skip < 0 {
			return false
		}
		body = body[n+skip:]
	}
	return false
}
