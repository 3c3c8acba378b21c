package consumer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The group callbacks. The client runs them one at a time on a goroutine of its
// own, never between a poll and AllowRebalance, and keeps polls waiting while
// one runs, so each is short for everybody's sake. What the last poll brought
// lies in the inboxes before a callback's request, so it is packed first.

func (c *Consumer) onAssigned(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
	for topic, partitions := range assigned {
		if l := c.lanes.of(topic); l != nil {
			l.inbox.put(func() {
				l.assign(partitions)
				c.blocks.healed(topic, partitions...)
			})
		}
	}
	c.joined.Store(true)
}

// topicIDs asks for the ids of topics until somebody answers or ctx ends.
func (c *Consumer) topicIDs(ctx context.Context, of map[string]map[int32]kgo.Offset) map[string]topicID {
	ids := make(map[string]topicID, len(of))
	topics := make([]string, 0, len(of))
	for topic := range of {
		topics = append(topics, topic)
	}
	if len(topics) == 0 {
		return ids
	}
	// The client joins the group on a goroutine that its constructor starts, so
	// the group may place us before the constructor has returned.
	select {
	case <-c.made:
	case <-ctx.Done():
		return ids
	}
	admin := kadm.NewClient(c.client.Load())
	for ctx.Err() == nil {
		details, err := admin.ListTopics(ctx, topics...)
		if err == nil {
			for _, d := range details {
				ids[d.Topic] = topicID(d.ID)
			}
			return ids
		}
		c.noteGroup("", err)
		rest(ctx)
	}
	return ids
}

// onRevoked drains what the lost partitions have open, in parallel and within
// limits, and commits what that settled.
func (c *Consumer) onRevoked(ctx context.Context, cl *kgo.Client, revoked map[string][]int32) {
	if len(revoked) == 0 {
		return
	}
	if c.reborn.stale.Load() {
		c.onLost(ctx, cl, revoked)
		return
	}
	c.retire(revoked, drainRevoke, drainQuiet)
	for topic, partitions := range revoked {
		c.blocks.healed(topic, partitions...)
	}
	within(ctx, commitRevoke, func(ctx context.Context) { c.noteCommit(cl.CommitMarkedOffsets(ctx)) })
}

// onLost detaches without a commit: the group has given the partitions away.
func (c *Consumer) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	c.joined.Store(false)
	c.reborn.lost()
	for topic, partitions := range lost {
		if l := c.lanes.of(topic); l != nil {
			l.inbox.put(func() {
				l.lose(partitions)
				c.blocks.healed(topic, partitions...)
			})
		}
	}
}

// retire retires partitions by topic, all routes at once, and returns when
// their ledgers are detached. A lane that does not answer is not waited for
// much longer than the limit: late settles cannot move a detached ledger, and
// one that is not detached yet belongs to a partition the client no longer
// marks.
func (c *Consumer) retire(revoked map[string][]int32, limit, quiet time.Duration) {
	waiting := make([]chan struct{}, 0, len(revoked))
	for topic, partitions := range revoked {
		l := c.lanes.of(topic)
		if l == nil {
			continue
		}
		done := make(chan struct{})
		waiting = append(waiting, done)
		l.inbox.put(func() { l.retire(partitions, limit, quiet, done) })
	}
	late := time.NewTimer(limit + time.Second)
	defer late.Stop()
	for _, done := range waiting {
		select {
		case <-done:
		case <-late.C:
			return
		}
	}
}
