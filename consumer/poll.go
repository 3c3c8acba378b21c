package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// pollBackoff is the pause after a poll that brought errors only: the client
// answers such polls at once.
const pollBackoff = 250 * time.Millisecond

// poll runs until ctx ends. Nothing waits between a poll and AllowRebalance.
func (c *Consumer) poll(ctx context.Context) error {
	client := c.client.Load()
	pace := time.NewTimer(0)
	defer pace.Stop()
	sizes, narrow := c.opts.Sizes, false
	for ctx.Err() == nil {
		full := c.gate.wait(ctx, func() { c.pollStamp.Store(time.Now().UnixNano()) })
		if full != narrow {
			narrow = full
			c.narrow(client, narrow)
		}
		wait, cancel := context.WithTimeout(ctx, wakeEvery)
		fetches := client.PollFetches(wait)
		cancel()
		brought, failed := c.deliver(fetches)
		client.AllowRebalance()
		if fetches.IsClientClosed() {
			return errors.New("the kafka client closed by itself")
		}
		pause := time.Duration(0)
		switch {
		case failed:
			pause = pollBackoff
		case brought > 0 && brought < int64(sizes.FetchMaxPartition):
			// The client holds one fetch per broker until polled, so the pace of
			// polls is the pace at which brokers are asked. It makes small fetches
			// fewer; a backlog, whose fetches are full, is not held up.
			pause = sizes.PollEvery
		}
		if pause > 0 {
			pace.Reset(pause)
			select {
			case <-ctx.Done():
			case <-pace.C:
			}
		}
	}
	return nil
}

// narrow makes fetches small while the window is full of what does not move:
// each route that turns out to be held brings one more poll before it is paused.
func (c *Consumer) narrow(client *kgo.Client, on bool) {
	all, part := c.opts.Sizes.FetchMaxBytes, c.opts.Sizes.FetchMaxPartition
	if on {
		all, part = min(all, leastShare), min(part, leastShare/4)
	}
	client.UpdateFetchMaxBytes(all, part)
}

// deliver accounts what a poll brought and hands it to the lanes. It never
// blocks. It returns the bytes of the records, and whether a partition failed.
func (c *Consumer) deliver(fetches kgo.Fetches) (brought int64, failed bool) {
	c.delivering.Lock()
	defer c.delivering.Unlock()
	// What happened to a log comes before what is read of it now.
	fetches.EachPartition(func(ft kgo.FetchTopicPartition) {
		if ft.Err != nil {
			failed = unreadable(&ft.FetchPartition) || c.noteFetch(ft.Topic, ft.Partition, ft.Err) || failed
		}
	})
	for i := range fetches {
		for _, ft := range fetches[i].Topics {
			l := c.lanes.of(ft.Topic)
			if l == nil {
				continue
			}
			var bytes int64
			useful := false
			for _, fp := range ft.Partitions {
				for _, r := range fp.Records {
					bytes += l.route.cost(r)
				}
				if len(fp.Records) > 0 {
					c.blocks.healed(ft.Topic, fp.Partition)
				}
				useful = useful || len(fp.Records) > 0 || unreadable(&fp)
			}
			if !useful {
				continue
			}
			brought += bytes
			if bytes > 0 {
				c.noteHealed(ft.Topic)
				c.gate.take(ft.Topic, bytes)
			}
			id, partitions := ft.TopicID, ft.Partitions
			l.inbox.put(func() {
				for _, fp := range partitions {
					if len(fp.Records) > 0 {
						l.accept(id, fp)
					}
					if unreadable(&fp) {
						l.blocked(&fp)
					}
				}
			})
		}
	}
	if brought > 0 {
		c.answered.Store(true)
	}
	return brought, failed
}

// noteFetch remembers what is wrong with a partition. It reports whether the
// poll loop should back off: not for the end of a context, which is how a quiet
// poll ends.
func (c *Consumer) noteFetch(topic string, partition int32, err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return false
	}
	if topic == "" {
		c.noteGroup("", err)
		return true
	}
	var loss *kgo.ErrDataLoss
	switch {
	case errors.As(err, &loss):
		if l := c.lanes.of(topic); l != nil {
			l.inbox.put(func() { l.truncated(partition, loss) })
		}
	case errors.Is(err, kerr.UnknownTopicID):
		c.incarnations.owe(topic) // the next look knows whether it is gone or another
	case errors.Is(err, kerr.UnknownTopicOrPartition) && partition < 0:
		c.noteMissing(topic, err)
	case kerr.IsRetriable(err) && !errors.Is(err, kerr.CorruptMessage): // a leader moves, or will
	default:
		c.noteBlocked(topic, partition, err)
	}
	return true
}
