package main

import (
	"cmp"
	"encoding/base64"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// biggestMessage is what Pub/Sub takes in one request, in bytes.
const biggestMessage = 10_000_000

// topic adds one Kafka topic: one row for what is well, one for each thing that
// is not.
func (p *preflight) topic(t *consumer.TopicInspection) {
	what := "topic " + t.Topic
	switch t.Cause {
	case consumer.Answered:
	case consumer.Missing:
		p.Add(sectionTopics, what, check.Fail, "does not exist", "create it, or remove the route: kafka-topics.sh --create --topic "+t.Topic)
		return
	case consumer.Denied:
		p.Add(sectionTopics, what, check.Fail, "may not be described, or does not exist", p.topicAdvice("kafka-cluster:DescribeTopic and kafka-cluster:ReadData", t.Topic))
		return
	default:
		p.Add(sectionTopics, what, check.Fail, oneLine(t.Err), "see the brokers' logs")
		return
	}
	for _, part := range t.Partitions {
		if part.Err != nil {
			p.Add(sectionTopics, what, check.Fail, fmt.Sprintf("partition %d: %v", part.Partition, part.Err), "bring its leader back")
		}
	}
	finding := fmt.Sprintf("%d partitions, id %s", len(t.Partitions), topicID(t.ID))
	switch t.MayRead {
	case fault.No:
		p.Add(sectionTopics, what, check.Fail, "may be described but not read", p.topicAdvice("kafka-cluster:ReadData", t.Topic))
	case fault.Yes:
		p.Add(sectionTopics, what, check.OK, finding+", may be read"+kept(t), "")
	case fault.Unknown:
		p.Add(sectionTopics, what, check.Unknown, finding+kept(t)+"; whether it may be read is not verifiable: brokers do not report permissions", "")
	}
	p.values(what, t)
	limit, takes := int64(biggestMessage), "Pub/Sub takes 10 MB"
	if p.format(t.Topic) == message.EnvelopeBytes {
		limit, takes = limit/4*3, takes+", which is 7.5 MB in base64"
	}
	if t.MaxMessageBytes > limit {
		p.Add(sectionTopics, what, check.Warn, fmt.Sprintf("max.message.bytes is %s, %s: larger records %s", size(t.MaxMessageBytes), takes, p.oversize(t.Topic)),
			"lower max.message.bytes, or choose with on_oversize and a dead-letter topic what becomes of them")
	}
	if t.Old == fault.Yes {
		p.Add(sectionTopics, what, check.Warn, fmt.Sprintf("the next records to read have outlived half of the retention of %v", t.Retention),
			"start the bridge soon, or raise retention.ms until it has caught up")
	}
	p.commits(what, t)
}

// values adds what the values are, and what the route's format makes of them.
func (p *preflight) values(what string, t *consumer.TopicInspection) {
	framing, format := t.Framing.String(), p.format(t.Topic)
	switch {
	case framing != "" && format == message.EnvelopeJSON:
		p.Add(sectionTopics, what, check.Warn, "values are framed: "+framing+"; so they are not JSON, and none would be published",
			"set value: bytes for the route")
	case framing != "":
		p.Add(sectionTopics, what, check.OK, "values are framed: "+framing+"; the frame is published with them", "")
	}
	if format != message.Raw {
		p.Add(sectionTopics, what, check.OK, "is published in envelopes; a BigQuery subscription to them needs use_table_schema and write_metadata", "")
	}
}

// format is that of the topic's route.
func (p *preflight) format(topic string) message.Format {
	for _, r := range p.cfg.Routes {
		if r.Topic == topic {
			return formatOf(r)
		}
	}
	return message.Raw
}

// commits compares the committed offsets with the log.
func (p *preflight) commits(what string, t *consumer.TopicInspection) {
	for _, part := range t.Partitions {
		at := fmt.Sprintf("partition %d: next to read is %d", part.Partition, part.Committed)
		switch {
		case part.Committed < 0 || part.End < 0:
		case part.Committed < part.Start:
			p.Add(sectionTopics, what, check.Warn, fmt.Sprintf("%s, but the log begins at %d: %d offsets are lost", at, part.Start, part.Start-part.Committed),
				"the bridge goes on at the log start and reports the loss; raise retention.ms to keep it from happening again")
		case part.Committed > part.End:
			p.Add(sectionTopics, what, check.Fail, fmt.Sprintf("%s, but the log ends at %d: the topic was recreated or truncated, and what is written below is at risk of being skipped", at, part.End),
				fmt.Sprintf("kafka-consumer-groups.sh --reset-offsets --to-earliest --execute --group %s --topic %s, with no bridge running", p.cfg.Group, t.Topic))
		}
	}
}

// group adds the consumer group.
func (p *preflight) group(in *consumer.Inspection) {
	g, what := in.Group, "group "+p.cfg.Group
	switch {
	case g.Cause == consumer.Denied:
		p.Add(sectionGroup, what, check.Fail, "may not be described", p.groupAdvice("kafka-cluster:DescribeGroup and kafka-cluster:AlterGroup"))
		return
	case g.Err != nil:
		p.Add(sectionGroup, what, check.Unclear, oneLine(g.Err), "repair what the rows of the brokers name; its coordinator is one of them")
		return
	case g.MayRead == fault.No:
		p.Add(sectionGroup, what, check.Fail, "may be described but not joined", p.groupAdvice("kafka-cluster:AlterGroup"))
	case g.Protocol != "" && g.Protocol != "consumer":
		p.Add(sectionGroup, what, check.Fail, "is a group of protocol "+g.Protocol+", which a consumer cannot join", "set BRIDGE_GROUP to a name of its own")
	case len(g.Foreign) > 0:
		p.Add(sectionGroup, what, check.Fail, fmt.Sprintf("%d of %d members are no bridges (%s): what they read is never bridged", len(g.Foreign), g.Members, list(g.Foreign)),
			"stop them, or set BRIDGE_GROUP to a name of its own")
	case g.MayRead == fault.Unknown:
		p.Add(sectionGroup, what, check.Unknown, state(&g)+"; whether it may be joined is not verifiable: brokers do not report permissions", "")
	default:
		p.Add(sectionGroup, what, check.OK, state(&g)+", may be joined", "")
	}
	if in.OffsetsErr != nil {
		p.Add(sectionGroup, "offsets", check.Unclear, oneLine(in.OffsetsErr), "repair what other rows name")
	}
}

func state(g *consumer.GroupInspection) string {
	if g.Members == 0 {
		return cmp.Or(map[string]string{"": "new", "Dead": "new"}[g.State], "without members")
	}
	return fmt.Sprintf("%s, %d members, all bridges", g.State, g.Members)
}

// topicAdvice says how to get permissions on a topic.
func (p *preflight) topicAdvice(actions, topic string) string {
	if p.iam() {
		return fmt.Sprintf("grant %s on topic %s to %s", actions, topic, p.who())
	}
	return fmt.Sprintf("kafka-acls.sh --add --operation Read --topic %s --allow-principal %s", topic, p.who())
}

// groupAdvice says how to get permissions on the group.
func (p *preflight) groupAdvice(actions string) string {
	if p.iam() {
		return fmt.Sprintf("grant %s on group %s to %s", actions, p.cfg.Group, p.who())
	}
	return fmt.Sprintf("kafka-acls.sh --add --operation Read --group %s --allow-principal %s", p.cfg.Group, p.who())
}

// oversize says what becomes of records that are too large.
func (p *preflight) oversize(topic string) string {
	for _, r := range p.cfg.Routes {
		switch {
		case r.Topic != topic || r.OnOversize == config.OnOversizePark:
		case r.OnOversize == config.OnOversizeStore:
			return "leave their values in " + r.Store
		case r.DeadLetter == "":
			return "hold the route, which has no dead-letter topic"
		default:
			return "hold the route"
		}
	}
	return "are parked"
}

func kept(t *consumer.TopicInspection) string {
	if t.Retention == 0 {
		return ""
	}
	return fmt.Sprintf(", kept for %v", t.Retention)
}

func topicID(id [16]byte) string {
	if id == [16]byte{} {
		return "none"
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func size(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }
