package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/message"
)

// Skip is a range of offsets of one partition, From first and To next, that an
// operator gave up: its records are not published. It stands on the dead-letter
// topic as one message.
type Skip struct {
	Partition int32
	From, To  int64
}

// skipAt returns where the range that holds offset ends, 0 for none.
func (l *lane) skipAt(n int32, offset int64) int64 {
	for _, s := range l.route.Skip {
		if s.Partition == n && s.From <= offset && offset < s.To {
			return s.To
		}
	}
	return 0
}

// skips reports whether the record at offset is to be left out, and notes the
// range on the dead-letter topic when it is entered. end is the log end: what
// is not written yet is not given up.
func (l *lane) skips(p *partition, offset, end int64) bool {
	if offset < p.skipTo {
		return true
	}
	to := min(l.skipAt(p.ledger.partition, offset), end)
	if to <= offset {
		return false
	}
	l.record = message.Record{Headers: l.record.Headers[:0], Value: []byte{}, TimestampMs: -1, Offset: offset, LeaderEpoch: -1}
	f := l.lay(p, time.Now(), &message.Refusal{
		Reason: message.Skipped,
		Detail: fmt.Sprintf("offsets %d to %d of partition %d were left out, as the routes file says", offset, to-1, p.ledger.partition),
	})
	f.cover(p.ledger, offset, position{to, p.epoch})
	f.queue.seal()
	p.expected, p.next, p.skipTo, p.jumped = to, to, to, time.Time{}
	return true
}

// unreadable reports whether a broker sent bytes that are no records: a corrupt
// batch, an unknown compression, or more than may be decompressed.
func unreadable(fp *kgo.FetchPartition) bool {
	var answer *kerr.Error
	return fp.Err != nil && fp.HighWatermark > 0 && !errors.As(fp.Err, &answer)
}

// blocked is told that the batch at the position of a partition is unreadable.
func (l *lane) blocked(fp *kgo.FetchPartition) {
	p := l.parts[fp.Partition]
	switch {
	case p == nil || p.skipTo > 0 && p.next == p.skipTo && p.leaping(fp.Err):
	case p.next >= 0 && l.skips(p, p.next, fp.HighWatermark):
		l.leap(p)
	default:
		l.block(fp.Partition, p.next, fp.Err)
	}
}

// leaping reports whether err may still be about what p skips: fetching has not
// been sent behind it, or was a moment ago, when an answer was under way. What
// the client names only once says where it is.
func (p *partition) leaping(err error) bool {
	if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
		return large.Offset < p.skipTo
	}
	return p.jumped.IsZero() || time.Since(p.jumped) < wakeEvery
}

// leap sends fetching behind what p skips as soon as all before is settled: the
// client commits where it is sent.
func (l *lane) leap(p *partition) {
	switch {
	case p.ledger.detached || p.next != p.skipTo:
	case p.ledger.idle():
		p.jumped = time.Now()
		l.jump(p.ledger.partition, kgo.EpochOffset{Epoch: p.epoch, Offset: p.next})
	default:
		time.AfterFunc(oldestWait, func() { l.inbox.put(func() { l.leap(p) }) })
	}
}
