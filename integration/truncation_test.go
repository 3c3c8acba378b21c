//go:build integration && unix

package integration

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

// TestTruncation lets a replica that lacks records become leader: what was
// written at their offsets afterwards are other records. They are published
// under other keys, and the range is told.
func TestTruncation(t *testing.T) {
	for _, version := range []string{realkafka.Version3, realkafka.Version4} {
		t.Run(version, func(t *testing.T) {
			k := threeNodes(t, version)
			l := newLife(t, k, "cut")
			l.createOn("cut", 2, 3)
			l.write("cut", 100, 100)
			b := l.start("one")
			l.awaitArrived("cut", 100)
			l.awaitCommit("cut", 100)

			k.own.Stop(2) // node 3 does not get the next ones
			l.writeTo("cut", 100)
			l.awaitArrived("cut", 200)
			l.awaitCommit("cut", 200)
			k.own.Kill(1) // node 2, the leader
			if err := k.own.Restart(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			l.writeTo("cut", 150)
			l.wantRange(b, fault.Truncated, "cut", 100, 200)
			l.awaitArrived("cut", 350)
			l.awaitCommit("cut", 250)
			epochs := map[int32]int{}
			for _, a := range l.arrivals.of(l.topic("cut")) {
				epochs[a.id.LeaderEpoch]++
			}
			t.Logf("SUMMARY kafka %s: 100 offsets hold other records now; by leader epoch there arrived %v", k.version, epochs)
			if err := k.own.Restart(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// createOn makes a topic of one partition on these nodes, counted from 1, the
// first of which leads, with unclean elections.
func (l *life) createOn(thing string, nodes ...int32) {
	l.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = l.topic(thing), -1, -1
	assign := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	assign.Replicas = nodes
	topic.ReplicaAssignment = append(topic.ReplicaAssignment, assign)
	for name, value := range map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"} {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = name, &value
		topic.Configs = append(topic.Configs, config)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(l.t.Context(), l.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		l.t.Fatalf("creating %s: %v", thing, err)
	}
}

// writeTo writes n records, each in a batch of its own, with a producer that
// knows nothing of before.
func (l *life) writeTo(thing string, n int) {
	l.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(l.k.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	for range n {
		if err := client.ProduceSync(l.t.Context(), &kgo.Record{Topic: l.topic(thing), Value: []byte("v")}).FirstErr(); err != nil {
			l.t.Fatalf("writing to %s: %v", thing, err)
		}
	}
}
