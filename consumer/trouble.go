package consumer

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// troubleLasts is how long a trouble counts after it was last seen. What does
// not heal is seen again by each poll or look.
const troubleLasts = 30 * time.Second

// Trouble is something wrong on the Kafka side that needs somebody.
type Trouble struct {
	Reason string // one clause, safe to print
	Since  time.Time
}

// troubles remembers what is wrong, by topic; "" is the group. Safe for
// concurrent use.
type troubles struct {
	mu      sync.Mutex // guards what follows
	known   map[string]*lastingTrouble
	givenUp map[string]bool // topics of which the client fetches some partitions no more
}

type lastingTrouble struct {
	Trouble
	seen    time.Time
	refused bool // it is one of access
}

// note remembers a trouble and reports whether it is new.
func (t *troubles) note(topic, reason string, refused bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if k := t.known[topic]; k != nil && k.Reason == reason && now.Sub(k.seen) < troubleLasts {
		k.seen = now
		return false
	}
	if t.known == nil {
		t.known = map[string]*lastingTrouble{}
	}
	t.known[topic] = &lastingTrouble{Trouble: Trouble{Reason: reason, Since: now}, seen: now, refused: refused}
	return true
}

// healed forgets the trouble of a topic and reports whether it was one of access.
func (t *troubles) healed(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[topic]
	delete(t.known, topic)
	return k != nil && k.refused
}

func (t *troubles) giveUp(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.givenUp == nil {
		t.givenUp = map[string]bool{}
	}
	t.givenUp[topic] = true
}

// takeGivenUp reports whether partitions of a topic were given up, and forgets it.
func (t *troubles) takeGivenUp(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	given := t.givenUp[topic]
	delete(t.givenUp, topic)
	return given
}

// of returns the trouble of a topic, the zero value for none.
func (t *troubles) of(topic string) Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.known[topic]; k != nil && time.Since(k.seen) < troubleLasts {
		return k.Trouble
	}
	return Trouble{}
}

func (c *Consumer) noteMissing(topic string, err error) {
	reason := fmt.Sprintf("kafka topic %s does not exist: create it or remove the route", topic)
	if c.troubles.note(topic, reason, false) {
		c.opts.Events(fault.Event{Kind: fault.TopicMissing, Topic: topic, Partition: -1, Reason: reason, Err: err})
	}
}

func (c *Consumer) noteBlocked(topic string, partition int32, err error) {
	reason := fmt.Sprintf("fetching partition %d: %v", partition, err)
	if partition < 0 {
		reason = err.Error()
	}
	kind := fault.PartitionBlocked
	if why := c.denied(topic, err); why != "" {
		kind, reason = fault.AccessRefused, why
		c.noteGivenUp(topic, partition)
	}
	var isNew bool
	if partition >= 0 && kind == fault.PartitionBlocked {
		isNew = c.blocks.note(topic, partition, reason, troubleLasts)
	} else {
		isNew = c.troubles.note(topic, reason, kind == fault.AccessRefused)
	}
	if isNew {
		c.opts.Events(fault.Event{Kind: kind, Topic: topic, Partition: partition, Reason: reason, Err: err})
	}
}

// noteCommit remembers a failed commit. What was not committed is committed
// later or published again under the same keys.
func (c *Consumer) noteCommit(err error) {
	if err != nil {
		c.noteGroup("committing: ", err)
	}
}

// onCommitted is told of each commit that the client makes by itself.
func (c *Consumer) onCommitted(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	c.noteCommit(err)
	if resp == nil {
		return
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			err := kerr.ErrorForCode(resp.Topics[i].Partitions[j].ErrorCode)
			if causeOf(err) != Missing { // the looks tell of a topic that is gone
				c.noteCommit(err)
			}
		}
	}
}
