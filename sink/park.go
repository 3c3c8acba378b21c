package sink

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// settleRefused parks a batch of one that can never be published, or holds the
// route with it until ctx ends: there is nothing that could be tried. A range
// that an operator skips is noted there whatever the route does with poison.
func (p *publication) settleRefused(ctx context.Context, refusal *message.Refusal) error {
	if p.route.parks() || refusal.Reason == message.Skipped && p.route.DeadLetter != "" {
		return p.park(ctx, 0, refusal)
	}
	p.batch.SetStalled(true)
	for {
		h, mine := p.route.hold(recordRefused, p.blocked(0, refusal), refusal)
		signal := h.released
		if mine {
			signal = nil
		}
		if p.sink.waits.wait(ctx, forEver, signal, nil) == wokeEnded {
			if mine {
				h.pass()
			}
			return ctx.Err()
		}
	}
}

// park publishes message m to the dead-letter topic and returns when that is
// acknowledged. A hold of the route for another cause does not concern it.
func (p *publication) park(ctx context.Context, m int, refusal *message.Refusal) error {
	r := p.route
	field := p.batch.Part(m, m+1)
	c := &call{head: r.deadHead, part: message.Park(field, refusal, r.Destination)}
	delay := probeMin
	var h *hold // the hold that this record is the prober of, if any
	for {
		err := p.attempt(ctx, c, r.deadRequest, 1)
		if err == nil {
			break
		}
		p.batch.SetStalled(true)
		switch {
		case ctx.Err() != nil:
		case classify(err) == fault.Retryable:
			_ = p.backOff(ctx, err, false) // ctx is asked below
		default:
			h = p.holdForDeadLetter(h, err)
			p.sink.waits.wait(ctx, delay, nil, nil)
			delay = min(2*delay, probeMax)
		}
		if ctx.Err() != nil {
			if h != nil {
				h.pass()
			}
			return ctx.Err()
		}
	}
	p.calm()
	p.batch.SetStalled(false)
	r.parked.Add(1)
	if h := r.current.Load(); h != nil && h.cause == deadLetterFails {
		r.release(h)
	}
	partition, offset := position(field)
	next := offset + 1
	if refusal.Reason == message.Skipped {
		next = p.batch.Spans[0].Next // the message stands for a range
	}
	r.events(fault.Event{
		Kind: fault.RecordParked, Topic: r.Topic, Partition: partition, First: offset, Next: next,
		Size: int64(len(field)), Reason: refusal.Error(),
	})
	return nil
}

// holdForDeadLetter holds the route because the dead-letter topic answered err.
// It takes and returns the hold that p is the prober of, nil for none.
func (p *publication) holdForDeadLetter(h *hold, err error) *hold {
	reason := "dead-letter topic: " + advice(err, p.route.DeadLetter)
	if h != nil && p.route.current.Load() == h {
		p.route.renew(h, reason, err)
		return h
	}
	if h, mine := p.route.hold(deadLetterFails, reason, err); mine {
		return h
	}
	return nil
}

// blocked says which record holds the route, and what can be done.
func (p *publication) blocked(m int, refusal *message.Refusal) string {
	partition, offset := position(p.batch.Part(m, m+1))
	return fmt.Sprintf("record %d/%d cannot be published (%s): set a dead-letter topic and on_poison park, or repair %s",
		partition, offset, refusal, p.route.Destination)
}

// position reads partition and offset of the record from its message field.
func position(field []byte) (partition int32, offset int64) {
	number := func(name string) int64 {
		text, _ := message.Attribute(field, name)
		n, _ := strconv.ParseInt(text, 10, 64) // the encoder wrote it
		return n
	}
	return int32(number(message.AttrPartition)), number(message.AttrOffset)
}
