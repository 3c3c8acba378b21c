package sink

import (
	"context"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// insist calls try until it succeeds; it returns an error only when ctx ends.
// What judge calls retryable is tried again after a while; for anything else
// the route is held, for cause c and with judge's reason, and try goes on slowly.
// A hold of the route for another cause does not concern it.
func (p *publication) insist(ctx context.Context, c cause, try func(context.Context) error, judge func(error) (fault.Class, string)) error {
	delay := probeMin
	var h *hold // the hold that p is the prober of, if any
	for {
		err := try(ctx)
		if err == nil {
			break
		}
		p.batch.SetStalled(true)
		class, reason := judge(err)
		switch {
		case ctx.Err() != nil:
		case class == fault.Retryable:
			_ = p.backOff(ctx, err, false) // ctx is asked below
		default:
			h = p.holdFor(c, h, reason, err)
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
	if h := p.route.current.Load(); h != nil && h.cause == c {
		p.route.release(h)
	}
	return nil
}

// holdFor holds the route for cause c. It takes and returns the hold that p is
// the prober of, nil for none.
func (p *publication) holdFor(c cause, h *hold, reason string, err error) *hold {
	if h != nil && p.route.current.Load() == h {
		p.route.renew(h, reason, err)
		return h
	}
	if h, mine := p.route.hold(c, reason, err); mine {
		return h
	}
	return nil
}
