package consumer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/mskbridge/mskbridge/internal/fault"
)

const (
	// idleAfter is how long a member may be without partitions before it says so.
	idleAfter = time.Minute
	// hangsAfter is how long a last stable offset may stand still below the log
	// end before the transaction that keeps it there is blamed. Producers end
	// theirs within seconds; Kafka's own limit is 15 minutes.
	hangsAfter = time.Minute
)

// watch is what the looks remember of each other. It belongs to the look loop.
type watch struct {
	absent    map[string]bool // topics that the last look did not find
	strangers map[string]bool // told
	idleSince time.Time       // zero while there are partitions
	idleTold  bool
	stable    map[string]map[int32]*stability
}

// stability is a last stable offset and since when it stands there.
type stability struct {
	at    int64
	since time.Time
	told  bool
}

// watchTopics looks for topics that went or came back. The client holds on to
// the incarnation that it began with, so it has to forget it.
func (c *Consumer) watchTopics(ctx context.Context, admin *kadm.Client, topics []string) {
	details, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		return // the look has said it
	}
	absent := map[string]bool{}
	for _, d := range details {
		l := c.lanes.of(d.Topic)
		switch {
		case l == nil:
		case d.Err == nil:
			c.noteIncarnation(d.Topic, topicID(d.ID))
			if c.incarnations.due(d.Topic) {
				l.inbox.put(l.orphan)
				c.readmit(ctx, d.Topic)
			}
		case causeOf(d.Err) == Missing:
			// A broker that has just started may not know its topics yet, so the
			// second look counts.
			if absent[d.Topic] = true; c.watch.absent[d.Topic] && l.stats.partitions.Load() > 0 {
				l.inbox.put(l.orphan)
				c.readmit(ctx, d.Topic)
			}
		}
	}
	c.watch.absent = absent
}

// watchLogs looks for what fetching does not show: losses of a log that is
// empty now, and transactions that keep records from being read. It returns
// what is to be said of the routes' lag.
func (c *Consumer) watchLogs(now time.Time, starts, ends, stable kadm.ListedOffsets) map[string]string {
	why := map[string]string{}
	before := c.watch.stable
	c.watch.stable = map[string]map[int32]*stability{}
	for topic, l := range c.lanes.all() {
		c.watch.stable[topic] = map[int32]*stability{}
		for n := range ends[topic] {
			start, end, at := offsetOf(starts, topic, n), offsetOf(ends, topic, n), offsetOf(stable, topic, n)
			if start > 0 && start == end {
				l.inbox.put(func() { l.emptied(n, start) })
			}
			if at < 0 || at >= end {
				continue
			}
			s := before[topic][n]
			if s == nil || s.at != at {
				s = &stability{at: at, since: now}
			}
			c.watch.stable[topic][n] = s
			if age := now.Sub(s.since); age >= hangsAfter {
				why[topic] = fmt.Sprintf("partition %d: a transaction that began at offset %d or before is open and keeps %d offsets from being read for %v: end or abort it",
					n, at, end-at, age.Round(time.Second))
				if !s.told {
					s.told = true
					c.opts.Events(fault.Event{Kind: fault.PartitionBlocked, Topic: topic, Partition: n, First: at, Next: end, Reason: why[topic]})
				}
			}
		}
	}
	return why
}

// watchGroup looks for strangers in the group, and whether we are of use in it.
func (c *Consumer) watchGroup(ctx context.Context, now time.Time, admin *kadm.Client) {
	described, err := admin.DescribeGroups(ctx, c.opts.Group)
	if err != nil || described[c.opts.Group].Err != nil {
		return
	}
	members := described[c.opts.Group].Members
	var strangers []string
	for _, m := range members {
		if m.ClientID != clientID {
			strangers = append(strangers, m.ClientID+" at "+m.ClientHost)
		}
	}
	if slices.Sort(strangers); len(strangers) > 0 {
		all := strings.Join(slices.Compact(strangers), ", ")
		reason := fmt.Sprintf("group %s has members that are no bridges and take partitions or commit for us: %s: give them or us another group", c.opts.Group, all)
		c.troubles.note("", reason, false)
		if !c.watch.strangers[all] {
			c.opts.Events(fault.Event{Kind: fault.ForeignMember, Partition: -1, Reason: reason})
		}
		c.watch.strangers = map[string]bool{all: true}
	} else {
		c.watch.strangers = nil
	}

	held := int64(0)
	for _, l := range c.lanes.all() {
		held += l.stats.partitions.Load()
	}
	switch {
	case held > 0 || !c.joined.Load():
		c.watch.idleSince, c.watch.idleTold = time.Time{}, false
	case c.watch.idleSince.IsZero():
		c.watch.idleSince = now
	case now.Sub(c.watch.idleSince) >= idleAfter && !c.watch.idleTold:
		c.watch.idleTold = true
		c.opts.Events(fault.Event{
			Kind: fault.ZeroAssignment, Partition: -1,
			Reason: fmt.Sprintf("this process is one of %d in group %s and has had no partition for %v: run fewer, or none of its topics exists", len(members), c.opts.Group, idleAfter),
		})
	}
}
