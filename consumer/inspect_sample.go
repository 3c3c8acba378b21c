package consumer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// inspectSample bounds the look at one record of each topic. A topic that ends
// in a transaction marker or in what compaction took does not answer.
const inspectSample = 3 * time.Second

// sample reads the last record of one partition of each topic, outside the
// group, to see what a schema registry put in front of its value.
func (i *inspector) sample(ctx context.Context) {
	last := map[string]map[int32]kgo.Offset{}
	waiting := map[string]*TopicInspection{}
	for _, t := range i.found.Topics {
		for _, p := range t.Partitions {
			if t.Err == nil && t.MayRead != fault.No && p.Err == nil && p.End > p.Start {
				last[t.Topic] = map[int32]kgo.Offset{p.Partition: kgo.NewOffset().At(p.End - 1)}
				waiting[t.Topic] = t
				break
			}
		}
	}
	if len(waiting) == 0 {
		return
	}
	client, err := kgo.NewClient(append(i.reach(), kgo.ConsumePartitions(last), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxBytes(1<<20), kgo.FetchMaxPartitionBytes(64<<10))...)
	if err != nil {
		return // the same options made the other client
	}
	defer within(context.WithoutCancel(ctx), closeStop, func(context.Context) { client.Close() })
	ctx, cancel := context.WithTimeout(ctx, inspectSample)
	defer cancel()
	for len(waiting) > 0 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if t := waiting[r.Topic]; t != nil {
				t.Framing = message.FramingOf(r.Value)
				delete(waiting, r.Topic)
				client.PauseFetchTopics(r.Topic)
			}
		})
	}
}
