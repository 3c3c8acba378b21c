package consumer

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// group asks about the group.
func (i *inspector) group(ctx context.Context) {
	g := &i.found.Group
	described, err := i.admin.DescribeGroups(ctx, i.Group)
	d := described[i.Group]
	if err == nil {
		err = d.Err
	}
	if g.Cause = causeOf(err); g.Cause == Missing {
		g.Cause, err = Answered, nil // newer brokers say so of a group to be
	}
	g.Err, g.State, g.Protocol, g.Members = err, d.State, d.ProtocolType, len(d.Members)
	g.MayRead = allowsRead(d.AuthorizedOperations)
	for _, m := range d.Members {
		if m.ClientID != clientID {
			g.Foreign = append(g.Foreign, m.ClientID+" at "+m.ClientHost)
		}
	}
}

// topics asks about the topics that there are: their settings, for which MSK
// wants a permission that the bridge can do without, and where they and the
// group stand.
func (i *inspector) topics(ctx context.Context) {
	var names []string
	topics := map[string]*TopicInspection{}
	for _, t := range i.found.Topics {
		if t.Err == nil {
			names, topics[t.Topic] = append(names, t.Topic), t
		}
	}
	if len(names) == 0 {
		return
	}
	configs, err := i.admin.DescribeTopicConfigs(ctx, names...)
	i.found.SettingsErr = err
	for _, r := range configs {
		if t := topics[r.Name]; t != nil {
			t.set(r.Configs)
		}
	}
	starts, ends, committed, err := offsets(ctx, i.admin, i.Options.Group, names)
	if causeOf(err) != Missing { // so says a group to be
		i.found.OffsetsErr = err
	}
	var since kadm.ListedOffsets
	if !i.since.IsZero() {
		if since, err = i.admin.ListOffsetsAfterMilli(ctx, i.since.UnixMilli(), names...); err != nil {
			i.found.OffsetsErr = err
		}
	}
	alike := map[time.Duration][]string{}
	for name, t := range topics {
		for k := range t.Partitions {
			p := &t.Partitions[k]
			start, isStart := starts.Lookup(name, p.Partition)
			end, isEnd := ends.Lookup(name, p.Partition)
			if isStart && isEnd && start.Err == nil && end.Err == nil {
				p.Start, p.End = start.Offset, end.Offset
			}
			if at, ok := committed.Lookup(name, p.Partition); ok && at.Err == nil {
				if of := stamped(at.Metadata); of == (topicID{}) || t.ID == [16]byte{} || of == topicID(t.ID) {
					p.Committed = at.At
				}
			}
			if at, ok := since.Lookup(name, p.Partition); ok && at.Err == nil {
				p.Since = at.Offset
			}
		}
		alike[t.Retention] = append(alike[t.Retention], name)
	}
	delete(alike, 0)
	for retention, names := range alike {
		if young, err := i.admin.ListOffsetsAfterMilli(ctx, time.Now().Add(-retention/2).UnixMilli(), names...); err == nil {
			for _, name := range names {
				topics[name].age(young)
			}
		}
	}
}

// set takes what the bridge wants to know from the settings of the topic.
func (t *TopicInspection) set(configs []kadm.Config) {
	for _, c := range configs {
		n, err := strconv.ParseInt(c.MaybeValue(), 10, 64)
		switch {
		case err != nil:
		case c.Key == "max.message.bytes":
			t.MaxMessageBytes = n
		case c.Key == "retention.ms":
			const most = int64(1<<63-1) / int64(time.Millisecond)
			t.Retention = time.Duration(min(max(n, 0), most)) * time.Millisecond // -1 is for ever
		}
	}
}

// age compares what was committed with the first offsets of the younger half.
func (t *TopicInspection) age(young kadm.ListedOffsets) {
	t.Old = fault.No
	for _, p := range t.Partitions {
		if first, ok := young.Lookup(t.Topic, p.Partition); ok && p.Committed >= 0 && p.Committed < min(first.Offset, p.End) {
			t.Old = fault.Yes
		}
	}
}
