package sink

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// settleRefused parks a batch of one that can never be published, or holds the
// route with it until ctx ends: there is nothing that could be tried.
func (p *publication) settleRefused(ctx context.Context, refusal *message.Refusal) error {
	if p.route.parks(refusal.Reason) {
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
	err := p.insist(ctx, deadLetterFails, func(ctx context.Context) error { return p.attempt(ctx, c, r.deadRequest, 1) },
		func(err error) (fault.Class, string) {
			return classify(err), "dead-letter topic: " + advice(err, r.DeadLetter)
		})
	if err != nil {
		return err
	}
	r.parked.Add(1)
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

// blocked says which record holds the route, and what can be done.
func (p *publication) blocked(m int, refusal *message.Refusal) string {
	partition, offset := position(p.batch.Part(m, m+1))
	do := "set a dead-letter topic and on_poison park, or repair " + p.route.Destination
	if refusal.Reason == message.TooLarge {
		do = "set on_oversize store, or a dead-letter topic and on_oversize park"
	}
	return fmt.Sprintf("record %d/%d cannot be published (%s): %s", partition, offset, refusal, do)
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
