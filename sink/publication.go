package sink

import (
	"context"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// attemptTimeout bounds one RPC. Pub/Sub's own clients use it too.
const attemptTimeout = 60 * time.Second

// longRetry is the delay from which a retry wait ends early when the route
// recovers. Shorter ones do not: they are what spares a server that fails
// every second request.
const longRetry = time.Second

// part is a run of messages of a batch, from (included) to to (not included).
type part struct{ from, to int }

func (u part) len() int { return u.to - u.from }

// publication is one call of Publish. It belongs to one goroutine.
type publication struct {
	sink  *Sink
	route *route
	batch *message.Batch
	lease lease
	// todo lists what is not settled yet. The last part comes first: parts are
	// taken from the end, so that halves go out in the order of the batch.
	todo []part
	// failures counts the attempts that failed since the last success.
	failures int
	began    time.Time // of the last attempt
}

func newPublication(s *Sink, r *route, b *message.Batch) *publication {
	p := &publication{sink: s, route: r, batch: b, lease: lease{idle: make(chan struct{}, 1)}}
	if b.Len() > 0 {
		p.todo = []part{{0, b.Len()}}
	}
	return p
}

// run returns nil when everything is settled, else the error of ctx.
func (p *publication) run(ctx context.Context) error {
	if r := p.batch.Refusal; r != nil && p.batch.Len() > 0 {
		if r.Reason == message.TooLarge && p.route.Oversize == StoreOversize {
			if err := p.claim(ctx); err != nil {
				return err
			}
		}
		if p.batch.Refusal != nil {
			return p.settleRefused(ctx, r)
		}
	}
	for len(p.todo) > 0 {
		if h := p.route.current.Load(); h != nil {
			if err := p.sitOut(ctx, h); err != nil {
				return err
			}
			continue
		}
		u := p.todo[len(p.todo)-1]
		err := p.send(ctx, u)
		if err == nil {
			p.todo = p.todo[:len(p.todo)-1]
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := p.react(ctx, u, err); err != nil {
			return err
		}
	}
	return nil
}

// end lets go of the slab.
func (p *publication) end() {
	p.calm()
	if !p.lease.ended() {
		p.batch.Slab = nil
	}
}

// react does what the class of err asks for. It returns an error only when ctx
// ends.
func (p *publication) react(ctx context.Context, u part, err error) error {
	p.batch.SetStalled(true)
	switch classify(err) {
	case fault.Retryable:
		return p.backOff(ctx, err, true)
	case fault.Poison:
		return p.isolate(ctx, u, err)
	default:
		h, mine := p.route.hold(destinationFails, advice(err, p.route.Destination), err)
		if mine {
			return p.probe(ctx, h)
		}
		return nil
	}
}

// backOff waits before the next attempt. With early a long wait ends when the
// destination takes something of the route; that says nothing about a
// dead-letter topic, nor about a quota.
func (p *publication) backOff(ctx context.Context, err error, early bool) error {
	r := p.route
	r.note(err)
	if p.failures++; p.failures == 1 {
		r.retry(1)
	}
	r.tellRetrying(p.began, err)
	first := backoffMin
	if codeOf(err) == codes.ResourceExhausted {
		first = backoffQuota
	}
	delay := retryDelay(p.failures, first)
	var recovered <-chan struct{}
	if early && delay >= longRetry && first == backoffMin {
		r.sleeping.Add(1)
		defer r.sleeping.Add(-1)
		recovered = r.recovery()
	}
	if p.sink.waits.wait(ctx, delay, recovered, nil) == wokeEnded {
		return ctx.Err()
	}
	r.retries.Add(1)
	return nil
}

// calm ends a run of failures.
func (p *publication) calm() {
	if p.failures > 0 {
		p.failures = 0
		p.route.retry(-1)
	}
}

// send tries once to publish the messages of u to the destination.
func (p *publication) send(ctx context.Context, u part) error {
	c := &call{head: p.batch.Head, part: p.batch.Part(u.from, u.to), lease: &p.lease}
	if err := p.attempt(ctx, c, p.route.request, u.len()); err != nil {
		return err
	}
	p.calm()
	p.batch.SetStalled(false)
	p.route.accepted(u.len())
	return nil
}

// attempt is one RPC with n messages.
func (p *publication) attempt(ctx context.Context, c *call, req *pubsubpb.PublishRequest, n int) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	r := p.route
	p.began = time.Now()
	r.requests.Add(1)
	r.inFlight.Add(1)
	defer r.inFlight.Add(-1)
	if _, err := p.sink.client.Publish(ctx, req, gax.WithGRPCOptions(grpc.ForceCodecV2(c))); err != nil {
		return err //nolint:wrapcheck // classified by its status, never shown as it is
	}
	if c.ids != n {
		return &idsError{want: n, got: c.ids}
	}
	r.bytes.Add(int64(len(c.head) + len(c.part)))
	return nil
}

// deliver takes message m, which was sent alone, out of what is to be done.
func (p *publication) deliver(m int) {
	for k, u := range p.todo {
		if u.from <= m && m < u.to {
			p.todo = slices.Replace(p.todo, k, k+1, part{m + 1, u.to}, part{u.from, m})
			break
		}
	}
	p.todo = slices.DeleteFunc(p.todo, func(u part) bool { return u.len() == 0 })
}
