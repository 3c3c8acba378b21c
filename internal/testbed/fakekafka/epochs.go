package fakekafka

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// place is a partition by name.
type place struct {
	topic     string
	partition int32
}

// leader is who leads a partition.
type leader struct{ node, epoch int32 }

// MoveTopicPartition gives a partition another leader and a higher epoch.
func (c *Cluster) MoveTopicPartition(topic string, partition, node int32) error {
	if err := c.Cluster.MoveTopicPartition(topic, partition, node); err != nil {
		return fmt.Errorf("moving the leader of %s/%d: %w", topic, partition, err)
	}
	c.noteLeaders()
	return nil
}

// NeverTruncated watches leaders and answers OffsetForLeaderEpoch as a cluster does that never lost
// a record. kfake says "unknown" for the last epoch that has records when a
// later one has none, where Kafka names the end of the log; a client takes the
// former for a truncation and reads everything again.
// Call it when the topics are there.
func (c *Cluster) NeverTruncated() {
	c.noteLeaders()
	c.ControlKey(kmsg.OffsetForLeaderEpoch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.OffsetForLeaderEpochRequest)
		resp := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, t := range r.Topics {
			to := kmsg.NewOffsetForLeaderEpochResponseTopic()
			to.Topic = t.Topic
			for _, p := range t.Partitions {
				at := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				at.Partition, at.LeaderEpoch, at.EndOffset = p.Partition, p.LeaderEpoch, math.MaxInt64
				if err := c.fenced(place{t.Topic, p.Partition}, p.CurrentLeaderEpoch); err != nil {
					at.ErrorCode = err.Code
				}
				to.Partitions = append(to.Partitions, at)
			}
			resp.Topics = append(resp.Topics, to)
		}
		return resp, nil, true
	})
}

// fenced is what the broker that is being asked says to a client that believes
// in an epoch.
func (c *Cluster) fenced(p place, epoch int32) *kerr.Error {
	node := c.CurrentNode()
	c.mu.Lock()
	defer c.mu.Unlock()
	l, known := c.leaders[p]
	switch {
	case !known:
		return nil
	case l.node != node:
		return kerr.NotLeaderForPartition
	case epoch >= 0 && epoch < l.epoch:
		return kerr.FencedLeaderEpoch
	case epoch > l.epoch:
		return kerr.UnknownLeaderEpoch
	}
	return nil
}

// noteLeaders remembers the leaders of now, for a control cannot ask.
func (c *Cluster) noteLeaders() {
	c.mu.Lock()
	topics := make([]string, 0, len(c.byName))
	for topic := range c.byName {
		topics = append(topics, topic)
	}
	c.mu.Unlock()
	now := map[place]leader{}
	for _, topic := range topics {
		for _, p := range c.PartitionInfos(topic) {
			now[place{topic, p.Partition}] = leader{p.Leader, p.Epoch}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaders = now
}
