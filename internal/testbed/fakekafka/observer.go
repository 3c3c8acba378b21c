package fakekafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commit is one partition of one OffsetCommit request.
type Commit struct {
	Group, Member, ClientID string
	Generation              int32
	Topic                   string
	TopicID                 [16]byte // zero when the cluster's wrapper did not create the topic
	Partition               int32
	Next                    int64 // committed offset: the next one to read
	LeaderEpoch             int32
}

// Assignment is what a member was given for a generation.
type Assignment struct {
	Group, Member string
	Generation    int32
	Topics        map[string][]int32
}

// Observer is told what the group coordinator sees. Calls of one connection
// come in order, those of different connections at once. It must not block and
// must not call the cluster.
type Observer interface {
	// CommitSent comes before the broker handles the commit.
	CommitSent(Commit)
	// CommitAccepted comes after the broker accepted it, before the client knows.
	CommitAccepted(Commit)
	// Assigned comes before the member learns of it.
	Assigned(Assignment)
}

// Observe adds an observer of everything that is sent from now on.
func (c *Cluster) Observe(o Observer) {
	c.tap.watch(kmsg.OffsetCommit.Int16(), func(clientID string, req kmsg.Request) func(kmsg.Response) {
		return c.tap.commits(o, clientID, req.(*kmsg.OffsetCommitRequest))
	})
	c.tap.watch(kmsg.SyncGroup.Int16(), func(_ string, req kmsg.Request) func(kmsg.Response) {
		return assignment(o, req.(*kmsg.SyncGroupRequest))
	})
}

// Watch calls f for every request with the given key before the broker handles
// it, and what f returns, if anything, with the answer. f must neither block
// nor call the cluster, nor keep the request.
func (c *Cluster) Watch(key kmsg.Key, f func(clientID string, req kmsg.Request) func(kmsg.Response)) {
	c.tap.watch(key.Int16(), f)
}

func (t *tap) commits(o Observer, clientID string, req *kmsg.OffsetCommitRequest) func(kmsg.Response) {
	type at struct{ topic, partition int }
	sent := map[at]Commit{}
	for i := range req.Topics {
		name, id := t.name(req.Topics[i].Topic, req.Topics[i].TopicID)
		for j, p := range req.Topics[i].Partitions {
			c := Commit{
				Group: req.Group, Member: req.MemberID, ClientID: clientID, Generation: req.Generation,
				Topic: name, TopicID: id, Partition: p.Partition, Next: p.Offset, LeaderEpoch: p.LeaderEpoch,
			}
			sent[at{i, j}] = c
			o.CommitSent(c)
		}
	}
	return func(resp kmsg.Response) {
		refused := map[string]map[int32]bool{}
		for _, rt := range resp.(*kmsg.OffsetCommitResponse).Topics {
			name, _ := t.name(rt.Topic, rt.TopicID)
			refused[name] = map[int32]bool{}
			for _, p := range rt.Partitions {
				refused[name][p.Partition] = p.ErrorCode != 0
			}
		}
		for _, c := range sent {
			if bad, answered := refused[c.Topic][c.Partition]; answered && !bad {
				o.CommitAccepted(c)
			}
		}
	}
}

// assignment looks at the answer: a leader may ask for what is no longer wanted.
func assignment(o Observer, req *kmsg.SyncGroupRequest) func(kmsg.Response) {
	a := Assignment{Group: req.Group, Member: req.MemberID, Generation: req.Generation, Topics: map[string][]int32{}}
	return func(resp kmsg.Response) {
		r := resp.(*kmsg.SyncGroupResponse)
		var ma kmsg.ConsumerMemberAssignment
		if r.ErrorCode != 0 || ma.ReadFrom(r.MemberAssignment) != nil {
			return // not a consumer's assignment
		}
		for _, t := range ma.Topics {
			a.Topics[t.Topic] = append(a.Topics[t.Topic], t.Partitions...)
		}
		o.Assigned(a)
	}
}
