package consumer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// noteGivenUp notes whether the client gave a partition up for good: when it may
// not ask for the committed offset, it fetches nothing until it is assigned
// anew. That is so when the lane got the partition, but never its place.
func (c *Consumer) noteGivenUp(topic string, partition int32) {
	if l := c.lanes.of(topic); l != nil {
		l.inbox.put(func() {
			if p := l.parts[partition]; p != nil && !p.placed {
				c.troubles.giveUp(topic)
			}
		})
	}
}

// readmit begins a topic anew: its ledgers are detached first, so that nothing
// of before can move a position, then the client forgets the topic and asks the
// group for it again.
func (c *Consumer) readmit(ctx context.Context, topic string) {
	client := c.client.Load()
	c.retire(map[string][]int32{topic: nil}, drainRevoke, drainQuiet)
	within(ctx, commitRevoke, func(ctx context.Context) { c.noteCommit(client.CommitMarkedOffsets(ctx)) })
	c.withTopics(ctx, func(client *kgo.Client) {
		client.PurgeTopicsFromClient(topic)
		if c.lanes.of(topic) != nil { // it may have been removed meanwhile
			client.AddConsumeTopics(topic)
		}
	})
}
