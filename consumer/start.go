package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// Start says where a route begins while the group has no commit for any
// partition of its topic. The zero value is the earliest record there is.
type Start struct {
	Latest bool      // behind the last record
	At     time.Time // the first record of that time or later, when not zero
}

func (s Start) String() string {
	switch {
	case s.Latest:
		return "latest"
	case !s.At.IsZero():
		return s.At.Format(time.RFC3339)
	default:
		return "earliest"
	}
}

// offset lets the client resolve s, which it does later and commits nothing.
func (s Start) offset() kgo.Offset {
	switch {
	case s.Latest:
		return kgo.NewOffset().AtEnd()
	case !s.At.IsZero():
		return kgo.NewOffset().AfterMilli(s.At.UnixMilli())
	default:
		return kgo.NewOffset().AtStart()
	}
}

// resolve resolves s for all partitions of a topic.
func (s Start) resolve(ctx context.Context, admin *kadm.Client, topic string) (kadm.ListedOffsets, error) {
	switch {
	case s.Latest: // what an open transaction has written is not there yet
		return admin.ListCommittedOffsets(ctx, topic)
	case !s.At.IsZero():
		return admin.ListOffsetsAfterMilli(ctx, s.At.UnixMilli(), topic)
	default:
		return admin.ListStartOffsets(ctx, topic)
	}
}

// coldWait is how long a member waits for the one that has partition 0 to
// commit where a topic without commits begins.
const coldWait = 5 * time.Second

// placeCold applies the route's start to a topic of which the group knows
// nothing. The member with partition 0 resolves and commits it for all, so that
// members agree where latest was; the others wait for that.
func (p *placement) placeCold(ctx context.Context, l *lane, partitions map[int32]kgo.Offset) {
	topic := l.route.Topic
	_, first := partitions[0]
	for began := time.Now(); !first && time.Since(began) < coldWait && ctx.Err() == nil; {
		rest(ctx)
		if _ = p.askCommits(ctx); p.cold(topic) {
			continue
		}
		return // place takes it from there
	}
	listed, err := l.route.Start.resolve(ctx, p.admin, topic)
	if err != nil {
		p.noteGroup("finding where to start: ", err)
	}
	for n := range partitions {
		partitions[n] = l.route.Start.offset()
	}
	begun := 0
	for n := range listed[topic] {
		if _, ours := partitions[n]; ours || first {
			if at := offsetOf(listed, topic, n); at >= 0 {
				p.move(topic, n, at)
				begun++
			}
		}
	}
	p.events = append(p.events, fault.Event{
		Kind: fault.ColdStart, Topic: topic, Partition: -1,
		Reason: fmt.Sprintf("group %s has no commit for any partition: %d of them begin at start %s", p.opts.Group, begun, l.route.Start),
	})
}
