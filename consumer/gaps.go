package consumer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// lost tells of the records from the next one to be read up to start, where
// the log of p begins now: retention or somebody deleted them. They count as
// settled, so that the commit moves past them and nobody tells it twice.
func (l *lane) lost(p *partition, start int64) {
	if p.next < 0 || start <= p.next {
		return
	}
	l.tell(fault.Event{
		Kind: fault.Loss, Topic: l.route.Topic, Partition: p.ledger.partition, First: p.next, Next: start,
		Reason: fmt.Sprintf("%d offsets were deleted from Kafka before they were read: lengthen the topic's retention", start-p.next),
	})
	l.settled(p.ledger.begin(p.next, position{start, p.epoch}))
	p.expected, p.next = start, start
}

// emptied is told that a log begins at start and is empty, so that nothing will
// be fetched from which a loss could be seen. What was fetched before may still
// be on its way, so the second look counts.
func (l *lane) emptied(n int32, start int64) {
	p := l.parts[n]
	if p == nil || p.next < 0 || start <= p.next {
		return
	}
	if p.suspect == p.next {
		l.lost(p, start)
	}
	p.suspect = p.next
}

// begin notes where fetching of a partition begins, in a log that begins at
// start, and tells what was lost below it.
func (l *lane) begin(n int32, at position, id topicID, start int64) {
	l.placed(n, max(at.next, -1), id)
	if p := l.parts[n]; p != nil {
		p.epoch = at.epoch
		l.lost(p, start)
	}
}

// truncated is told that what was written from loss.ResetTo on was cut off and
// may be written again as other records, which the client reads. What is open
// of it may no longer move the position past there.
func (l *lane) truncated(n int32, loss *kgo.ErrDataLoss) {
	if p := l.parts[n]; p != nil {
		p.queue.seal()
		p.ledger.cut(loss.ResetTo)
		if at, ok := l.safe[n]; ok {
			at.Offset = min(at.Offset, loss.ResetTo)
			l.safe[n] = at
		}
		p.expected, p.next, p.suspect, p.skipTo = loss.ResetTo, loss.ResetTo, -1, 0
	}
	l.tell(fault.Event{
		Kind: fault.Truncated, Topic: l.route.Topic, Partition: n, First: loss.ResetTo, Next: loss.ConsumedTo, Err: loss,
		Reason: "the log was cut below what was read (unclean election): what is written there anew is read under a new leader epoch",
	})
}
