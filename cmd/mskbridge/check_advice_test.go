package main

import (
	"errors"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/sink"
)

const role = "arn:aws:iam::123456789012:role/bridge"

// aws is a bridge that AWS lets in, or not.
func aws() *preflight {
	s := config.Settings{Auth: config.AuthIAM, RoleARN: role, RoleAudience: "sts.amazonaws.com", Group: "g", PubSubEndpoint: ""}
	sizes, err := config.DeriveSizes(128<<20, config.ProfileBalanced, 3)
	if err != nil {
		panic(err)
	}
	s.Memory = 128 << 20
	return &preflight{cfg: &config.Config{Settings: s, Sizes: sizes}, principal: role, now: time.Now()}
}

// What only AWS, Cloud Run or a large cluster would say, said by the test.
func TestCheckGivesAdvice(t *testing.T) {
	topic := func(i consumer.TopicInspection) func(*preflight) {
		i.Topic = "orders"
		return func(p *preflight) { p.topic(&i) }
	}
	values := func(o config.RouteOptions, value string) func(*preflight) {
		return func(p *preflight) {
			p.cfg.Routes = []config.Route{{Topic: "orders", RouteOptions: o}}
			p.topic(&consumer.TopicInspection{Topic: "orders", MayRead: fault.Yes, MaxMessageBytes: 8_000_000, Framing: message.FramingOf([]byte(value))})
		}
	}
	group := func(g consumer.GroupInspection) func(*preflight) {
		return func(p *preflight) { p.group(&consumer.Inspection{Group: g}) }
	}
	access := func(c consumer.Cause) func(*preflight) {
		return func(p *preflight) {
			p.access(&consumer.Inspection{Err: errors.New("no"), Cause: c, Brokers: []*consumer.BrokerInspection{{}}})
		}
	}
	platform := func(l config.Platform, do func(*preflight)) func(*preflight) {
		return func(p *preflight) { p.platform = l; do(p) }
	}
	ordered := func(endpoint string) func(*preflight) {
		return func(p *preflight) {
			p.cfg.PubSubEndpoint = endpoint
			p.cfg.Routes = []config.Route{{Topic: "orders", RouteOptions: config.RouteOptions{Ordering: config.OrderingPartition}}}
			p.ordered(&consumer.Inspection{Topics: []*consumer.TopicInspection{{Topic: "orders", Partitions: make([]consumer.PartitionInspection, 6)}}})
		}
	}
	for _, tt := range []struct {
		name string
		do   func(*preflight)
		want wanted
	}{
		{"envelope", values(config.RouteOptions{Format: config.FormatEnvelope}, "{}"), wanted{"topic orders", check.OK, "in envelopes; a BigQuery subscription to them needs use_table_schema", ""}},
		{"larger in base64", values(config.RouteOptions{Format: config.FormatEnvelope}, "{}"), wanted{"topic orders", check.Warn, "max.message.bytes is 8.0 MB, Pub/Sub takes 10 MB, which is 7.5 MB in base64: larger", ""}},
		{
			"framed values as JSON", values(config.RouteOptions{Format: config.FormatEnvelope, Value: config.ValueJSON}, "\x00\x00\x00\x00\x11avro"),
			wanted{"topic orders", check.Warn, "registry id 17; so they are not JSON", "set value: bytes"},
		},
		{"read is missing", topic(consumer.TopicInspection{MayRead: fault.No}), wanted{"topic orders", check.Fail, "not read", "grant kafka-cluster:ReadData on topic orders to " + role}},
		{
			"describe is missing", topic(consumer.TopicInspection{Err: errors.New("no"), Cause: consumer.Denied}),
			wanted{"topic orders", check.Fail, "may not be described", "grant kafka-cluster:DescribeTopic and kafka-cluster:ReadData on topic orders"},
		},
		{"brokers report no permissions", topic(consumer.TopicInspection{}), wanted{"topic orders", check.Unknown, "not verifiable", ""}},
		{
			"a partition without leader", topic(consumer.TopicInspection{Partitions: []consumer.PartitionInspection{{Partition: 4, Err: errors.New("LEADER_NOT_AVAILABLE"), End: -1}}}),
			wanted{"topic orders", check.Fail, "partition 4: LEADER_NOT_AVAILABLE", "leader"},
		},
		{"the group may not be joined", group(consumer.GroupInspection{MayRead: fault.No}), wanted{"group g", check.Fail, "not joined", "grant kafka-cluster:AlterGroup on group g to " + role}},
		{
			"the group may not be described", group(consumer.GroupInspection{Err: errors.New("no"), Cause: consumer.Denied}),
			wanted{"group g", check.Fail, "may not be described", "kafka-cluster:DescribeGroup and kafka-cluster:AlterGroup"},
		},
		{"the group is of connectors", group(consumer.GroupInspection{Protocol: "connect"}), wanted{"group g", check.Fail, "protocol connect", "BRIDGE_GROUP"}},
		{"the coordinator is silent", group(consumer.GroupInspection{Err: errors.New("no"), Cause: consumer.Silent}), wanted{"group g", check.Unclear, "no", ""}},
		{
			"the role does not trust us", access(consumer.NoCredentials),
			wanted{"access", check.Fail, "no credentials", "accounts.google.com:oaud = sts.amazonaws.com"},
		},
		{"the role may not connect", access(consumer.Refused), wanted{"access", check.Fail, "refused", "grant kafka-cluster:Connect on the cluster to " + role}},
		{
			"a certificate that ends soon", func(p *preflight) {
				p.broker(&consumer.BrokerInspection{Address: "b:1", CertEnds: p.now.Add(20 * 24 * time.Hour)})
			},
			wanted{"broker b:1", check.Warn, "20 days", "renew"},
		},
		{"buffers beyond the container", platform(config.Platform{Memory: 64 << 20}, func(p *preflight) { p.memory(40) }), wanted{"memory", check.Fail, "for 40 brokers need up to", "BRIDGE_BROKERS"}},
		{"buffers beyond the soft limit", platform(config.Platform{Memory: 128 << 20}, func(p *preflight) { p.memory(46) }), wanted{"memory", check.Warn, "the container's 128MiB", "BRIDGE_BROKERS"}},
		{"buffers that fit", platform(config.Platform{Memory: 128 << 20}, func(p *preflight) { p.memory(3) }), wanted{"memory", check.OK, "", ""}},
		{"cloud run", platform(config.Platform{CloudRun: true, CPUs: 1}, (*preflight).cpu), wanted{"cpu", check.Unknown, "not verifiable", `cpu-throttling: "false"`}},
		{"half a cpu", platform(config.Platform{CPUs: 0.5}, (*preflight).cpu), wanted{"cpu", check.Warn, "0.5 CPUs", "one CPU"}},
		{"a clock that AWS refuses", func(p *preflight) { p.clock(&sink.Probed{Clock: true, Ahead: -6 * time.Minute}) }, wanted{"clock", check.Fail, "6m0s behind Google's", "NTP"}},
		{"order over the global endpoint", ordered(""), wanted{"ordered route orders", check.Warn, "6 MB/s for 6 partitions", "BRIDGE_PUBSUB_ENDPOINT"}},
		{"order over a regional endpoint", ordered("us-central1-pubsub.googleapis.com:443"), wanted{"ordered route orders", check.OK, "1 MB/s", ""}},
		{"no google identity", func(p *preflight) { p.pubsub(nil, nil, errors.New("no credentials")) }, wanted{"client", check.Fail, "no credentials", "service account"}},
		{"kafka hangs beyond all limits", func(p *preflight) { p.kafka(nil, errors.New("waiting")) }, wanted{"kafka", check.Fail, "waiting", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := aws()
			tt.do(p)
			if !tt.want.in(p.Rows()) {
				t.Errorf("no row %+v in\n%s", tt.want, show(p.Rows()))
			}
		})
	}
}
