package consumer

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// restFor is how long a partition whose next batch cannot be read is left alone:
// each look at it fetches the same bytes across the clouds.
const restFor = 20 * time.Second

// blockedLasts is for ever: the client may name an unreadable batch only once.
const blockedLasts = 100 * 365 * 24 * time.Hour

// blocks remembers which partitions cannot be read, until they can or are taken
// away. Safe for concurrent use.
type blocks struct {
	mu    sync.Mutex // guards known
	known map[string]map[int32]*lastingTrouble
}

// note remembers a block for so long, unless it is seen again, and reports
// whether it is new.
func (b *blocks) note(topic string, n int32, reason string, lasts time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]map[int32]*lastingTrouble{}
	}
	if b.known[topic] == nil {
		b.known[topic] = map[int32]*lastingTrouble{}
	}
	now := time.Now()
	if k := b.known[topic][n]; k != nil && k.Reason == reason && now.Before(k.seen.Add(troubleLasts)) {
		k.seen = now.Add(lasts - troubleLasts)
		return false
	}
	b.known[topic][n] = &lastingTrouble{Trouble: Trouble{Reason: reason, Since: now}, seen: now.Add(lasts - troubleLasts)}
	return true
}

// healed forgets the blocks of partitions.
func (b *blocks) healed(topic string, partitions ...int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range partitions {
		delete(b.known[topic], n)
	}
}

// of returns the trouble of the first blocked partition of topic, and says how
// many more there are.
func (b *blocks) of(topic string) (t Trouble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	more := -1
	for _, n := range slices.Sorted(maps.Keys(b.known[topic])) {
		k := b.known[topic][n]
		if time.Since(k.seen) >= troubleLasts {
			continue
		}
		if more++; more == 0 {
			t = k.Trouble
		}
	}
	if more > 0 {
		t.Reason += fmt.Sprintf(" (and %d more partitions)", more)
	}
	return t
}

// noteUnreadable holds a partition at an offset whose batch is no records, and
// lets the client leave it alone for a while. Others of the route go on.
func (c *Consumer) noteUnreadable(topic string, n int32, at int64, err error) {
	reason := fmt.Sprintf("partition %d cannot be read at offset %d (%v): repair the log, or skip the batch in the routes file", n, at, err)
	if c.blocks.note(topic, n, reason, blockedLasts) {
		c.opts.Events(fault.Event{
			Kind: fault.PartitionBlocked, Topic: topic, Partition: n, First: at, Next: at + 1, Reason: reason, Err: err,
		})
	}
	one := map[string][]int32{topic: {n}}
	client := c.client.Load()
	client.PauseFetchPartitions(one)
	time.AfterFunc(restFor, func() { client.ResumeFetchPartitions(one) })
}
