package consumer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/fault"
)

const (
	// placeGrace is how long a placement goes on when the group's session has
	// ended: partitions that stay with us are fetched from where it says.
	placeGrace = time.Second
	// placeTries is how often offsets are asked for, and committed, before
	// fetching begins without: the client's own rules lose nothing.
	placeTries = 3
)

// placement decides where fetching of newly assigned partitions begins.
type placement struct {
	*Consumer
	admin        *kadm.Client
	starts, ends kadm.ListedOffsets
	commits      kadm.OffsetResponses
	known        bool                                 // commits are
	begin        map[string]map[int32]kgo.Offset      // what the client wants, then what it gets
	commit       map[string]map[int32]kgo.EpochOffset // what is committed before
	events       []fault.Event                        // told after that
}

// onPlaced tells the lanes and the client where fetching starts. It never
// fails: an error would make the client give up every partition. It insists on
// the topic ids, since without one a broker before 3.1 would give the records
// keys that are not theirs, and fetching begins only after it returned; ctx
// ends when the session does.
func (c *Consumer) onPlaced(ctx context.Context, begin map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(placeGrace, cancel) })()
	ids := c.topicIDs(asking, begin)
	p := &placement{Consumer: c, begin: begin, commit: map[string]map[int32]kgo.EpochOffset{}}
	if len(ids) > 0 {
		p.admin = kadm.NewClient(c.client.Load())
		p.ask(asking)
	}
	for topic, partitions := range begin {
		if l := c.lanes.of(topic); l != nil {
			p.place(asking, l, partitions, ids[topic])
		}
	}
	p.settle(asking)
	return begin, nil
}

// ask learns where the logs begin and end, and what the group has committed.
func (p *placement) ask(ctx context.Context) {
	topics := make([]string, 0, len(p.begin))
	for topic := range p.begin {
		topics = append(topics, topic)
	}
	for range placeTries {
		var questions sync.WaitGroup
		var errs [3]error
		questions.Go(func() { p.starts, errs[0] = p.admin.ListStartOffsets(ctx, topics...) })
		questions.Go(func() { p.ends, errs[1] = p.admin.ListEndOffsets(ctx, topics...) })
		questions.Go(func() { errs[2] = p.askCommits(ctx) })
		questions.Wait()
		if errs == ([3]error{}) || ctx.Err() != nil {
			return
		}
		rest(ctx)
	}
}

func (p *placement) askCommits(ctx context.Context) error {
	commits, err := p.admin.FetchOffsets(ctx, p.opts.Group)
	if causeOf(err) == Missing { // so says a group to be
		err = nil
	}
	if _, nameless := commits[""]; nameless {
		// Brokers from 4.1 on answer with topic ids, and the client could not name
		// them all: what is missing here is not missing there.
		err = kerr.UnknownTopicID
	}
	if err == nil {
		p.commits, p.known = commits, true
	}
	return err
}

// committed returns the group's commit for a partition, and whether it has one.
func (p *placement) committed(topic string, n int32) (kadm.OffsetResponse, bool) {
	at, ok := p.commits.Lookup(topic, n)
	return at, ok && (at.Err != nil || at.At >= 0)
}

// cold reports whether the group has no commit for any partition of topic.
func (p *placement) cold(topic string) bool {
	for n := range p.commits[topic] {
		if _, has := p.committed(topic, n); has {
			return false
		}
	}
	return p.known
}

// offsetOf returns the offset listed for a partition, -1 when it is not known.
func offsetOf(listed kadm.ListedOffsets, topic string, n int32) int64 {
	if at, ok := listed.Lookup(topic, n); ok && at.Err == nil {
		return at.Offset
	}
	return -1
}

// place decides for the partitions of one topic. What can be trusted begins at
// its commit, as the client wants.
func (p *placement) place(ctx context.Context, l *lane, partitions map[int32]kgo.Offset, id topicID) {
	topic := l.route.Topic
	id = p.noteIncarnation(topic, id)
	again := p.incarnations.again(topic)
	for _, at := range p.commits[topic] {
		if of := stamped(at.Metadata); of != id && of != (topicID{}) {
			again = true
			p.noteRecreated(topic, id)
		}
	}
	if !again && p.cold(topic) {
		p.placeCold(ctx, l, partitions)
	}
	for n, offset := range partitions {
		start, end := offsetOf(p.starts, topic, n), offsetOf(p.ends, topic, n)
		at := position{offset.EpochOffset().Offset, offset.EpochOffset().Epoch}
		commit, has := p.committed(topic, n)
		if has && commit.Err == nil && at.next < 0 { // committed since the client asked
			at = position{commit.At, commit.LeaderEpoch}
			partitions[n] = kgo.NewOffset().At(at.next).WithEpoch(at.epoch)
		}
		of := stamped(commit.Metadata)
		tell := func(kind fault.Kind, first, next int64, reason string) {
			p.events = append(p.events, fault.Event{Kind: kind, Topic: topic, Partition: n, First: first, Next: next, Reason: reason})
		}
		if moved, is := p.commit[topic][n]; is {
			at = position{moved.Offset, -1}
		} else if p.known && !has && !again && !p.cold(topic) {
			tell(fault.PartitionsAdded, 0, 0, "the partition is new, others of the topic have commits: it is read from its first record")
			if start >= 0 {
				p.move(topic, n, start)
			}
			at = position{0, -1} // what is below the log start is lost, known or seen with the first record
		} else if p.known && start >= 0 && end >= 0 {
			switch {
			case has && of != (topicID{}) && of != id, again && !has:
				at = p.move(topic, n, start) // the commit is of an earlier incarnation, or was
			case at.next > end && (at.epoch < 0 || of == topicID{}):
				tell(fault.Truncated, end, at.next, fmt.Sprintf(
					"the group's commit lies beyond the log end: somebody set it, or the log was cut; everything from %d on is read again", start))
				at = p.move(topic, n, start)
			case at.next >= 0 && at.next < start:
				p.move(topic, n, start)
			}
		}
		p.incarnations.mark(topic, n, id)
		l.inbox.put(func() { l.begin(n, at, id, start) })
	}
}

// move makes a partition begin at next, and the group know it.
func (p *placement) move(topic string, n int32, next int64) position {
	if p.commit[topic] == nil {
		p.commit[topic] = map[int32]kgo.EpochOffset{}
	}
	p.commit[topic][n] = kgo.EpochOffset{Epoch: -1, Offset: next}
	if _, ours := p.begin[topic][n]; ours {
		p.begin[topic][n] = kgo.NewOffset().At(next)
	}
	return position{next, -1}
}

// settle commits what was moved and tells what was found.
func (p *placement) settle(ctx context.Context) {
	for range placeTries {
		if len(p.commit) == 0 || ctx.Err() != nil {
			break
		}
		err := p.send(ctx)
		if err == nil {
			break
		}
		p.noteGroup("committing where to start: ", err)
		rest(ctx)
	}
	for _, e := range p.events {
		p.opts.Events(e)
	}
}

// send commits past the client, which does not hold these partitions yet and
// would take the answer for that of a former life.
func (p *placement) send(ctx context.Context) error {
	client := p.client.Load()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = p.opts.Group
	req.MemberID, req.Generation = client.GroupMetadata()
	for topic, partitions := range p.commit {
		to := kmsg.NewOffsetCommitRequestTopic()
		to.Topic, to.TopicID = topic, p.incarnations.of(topic)
		for n, at := range partitions {
			part := kmsg.NewOffsetCommitRequestTopicPartition()
			part.Partition, part.Offset, part.LeaderEpoch = n, at.Offset, at.Epoch
			to.Partitions = append(to.Partitions, part)
		}
		req.Topics = append(req.Topics, to)
	}
	p.incarnations.stamp(req)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err //nolint:wrapcheck // noteGroup says what for
	}
	for i := range resp.Topics {
		for _, at := range resp.Topics[i].Partitions {
			if err := kerr.ErrorForCode(at.ErrorCode); err != nil {
				return err //nolint:wrapcheck // the same
			}
		}
	}
	return nil
}

// rest returns after a pause, or when ctx ends.
func rest(ctx context.Context) {
	timer := time.NewTimer(pollBackoff)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
