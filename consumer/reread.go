package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A replay reads with fetches of its own instead of the client's consumer, which
// does not say how far it has read: a range that ends in an aborted transaction,
// or in what compaction took, would never be known to have ended.

// quietLimit is how long a partition may bring nothing, though its log goes on
// behind the position, before that counts as the answer. Tiered storage answers
// late, and a broker that has just started may not know its topics.
const quietLimit = 30 * time.Second

// brake stops the readers of a replay while its route has its share in hand.
type brake struct {
	mu  sync.Mutex    // guards off
	off chan struct{} // closed at the resume; nil while nothing is paused
}

func (b *brake) PauseFetchTopics(...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.off = make(chan struct{})
	return nil
}

func (b *brake) ResumeFetchTopics(...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.off)
	b.off = nil
}

func (b *brake) wait(ctx context.Context) {
	b.mu.Lock()
	off := b.off
	b.mu.Unlock()
	if off == nil {
		return
	}
	select {
	case <-off:
	case <-ctx.Done():
	}
}

// readAll reads every partition to its end, some at a time. The first error
// stops them all.
func (r *replay) readAll(ctx context.Context, stop context.CancelCauseFunc) {
	var readers sync.WaitGroup
	free := make(chan struct{}, readersAtOnce)
	for _, p := range r.parts {
		free <- struct{}{}
		readers.Go(func() {
			defer func() { <-free }()
			if err := r.read(ctx, p); err != nil {
				stop(err)
			}
		})
	}
	readers.Wait()
}

// read reads p to its end. It returns nil when ctx ends.
func (r *replay) read(ctx context.Context, p *replayPart) error {
	moved := time.Now()
	for p.at < p.End {
		r.brake.wait(ctx)
		at := p.at
		err := r.step(ctx, p)
		quiet := time.Since(moved)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // whoever ended ctx knows why
		case p.at > at:
			moved = time.Now()
			r.note("")
		case err == nil && quiet >= quietLimit:
			r.silence(p)
		case err != nil && quiet >= patience(err):
			return fmt.Errorf("reading partition %d at offset %d: %w", p.Partition, p.at, err)
		case err != nil:
			r.note(fmt.Sprintf("partition %d: %v", p.Partition, err))
			p.leader = -1
			rest(ctx)
		}
	}
	return nil
}

// finalError is one that no waiting heals.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// patience is how long err is borne before it ends the replay.
func patience(err error) time.Duration {
	_, final := errors.AsType[finalError](err)
	switch cause := causeOf(err); {
	case final, cause == Denied, cause == Refused, cause == NoCredentials:
		return 0
	case cause == Missing, errors.Is(err, kerr.OffsetOutOfRange):
		return quietLimit
	default:
		return math.MaxInt64
	}
}

// step makes one fetch and hands over what it brought.
func (r *replay) step(ctx context.Context, p *replayPart) error {
	fp, next, err := r.fetch(ctx, p)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return r.catchUp(ctx, p, err)
	case err != nil:
		return err
	case next == p.at && fp.LastStableOffset < p.End:
		return fmt.Errorf("the log ends at offset %d now: %w", fp.LastStableOffset, kerr.OffsetOutOfRange)
	}
	return r.hand(ctx, p, fp, min(next, p.End))
}

// fetch asks the leader of p for what comes at its position. It returns the
// offset after the last batch of the answer, whatever was in it.
func (r *replay) fetch(ctx context.Context, p *replayPart) (fp kgo.FetchPartition, next int64, err error) {
	if p.leader < 0 {
		topic, err := r.describe(ctx)
		if err != nil {
			return fp, p.at, err
		}
		if topicID(topic.ID) != r.id {
			return fp, p.at, finalError{errors.New("the topic was deleted and created again")}
		}
		p.leader = topic.Partitions[p.Partition].Leader
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = fetchMaxWaitMillis, 1, r.Sizes.FetchMaxBytes
	req.IsolationLevel = 1 // read committed
	t, q := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	q.Partition, q.FetchOffset, q.PartitionMaxBytes = p.Partition, p.at, r.Sizes.FetchMaxPartition
	t.Topic, t.TopicID, t.Partitions = r.Topic, r.id, []kmsg.FetchRequestTopicPartition{q}
	req.Topics = []kmsg.FetchRequestTopic{t}
	resp, err := req.RequestWith(ctx, r.client.Broker(int(p.leader)))
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && (len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1) {
		err = errors.New("the answer lacks the partition")
	}
	if err != nil {
		return fp, p.at, err
	}
	fp, next = kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: p.at, IsolationLevel: kgo.ReadCommitted(), Topic: r.Topic, Partition: p.Partition,
	}, &resp.Topics[0].Partitions[0], r.decompressor, nil)
	if next > p.at {
		return fp, next, nil // what is wrong behind it shows again
	}
	if unreadable(&fp) {
		fp.Err = finalError{fmt.Errorf("the batch cannot be read (%w): go on behind it", fp.Err)}
	}
	return fp, next, fp.Err
}

// catchUp is told that a log does not have the position of p any more, and goes
// on where the log begins now.
func (r *replay) catchUp(ctx context.Context, p *replayPart, err error) error {
	starts, listErr := r.admin.ListStartOffsets(ctx, r.Topic)
	if listErr != nil {
		return listErr
	}
	start := min(offsetOf(starts, r.Topic, p.Partition), p.End)
	if start <= p.at {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Gone += start - p.at
	p.at = start
	return nil
}

// hand gives the lane the records below next, at the pace of the limit.
func (r *replay) hand(ctx context.Context, p *replayPart, fp kgo.FetchPartition, next int64) error {
	records := fp.Records
	if k := slices.IndexFunc(records, func(rec *kgo.Record) bool { return rec.Offset >= next }); k >= 0 {
		records = records[:k]
	}
	for p.at < next {
		n := min(len(records), r.limit.Burst())
		if err := r.limit.WaitN(ctx, n); err != nil {
			return err
		}
		chunk, to := fp, next
		if chunk.Records = records[:n]; n < len(records) {
			to = records[n-1].Offset + 1
		}
		records = records[n:]
		if r.arrive(p, to, chunk.Records); n > 0 {
			r.lane.inbox.put(func() { r.lane.accept(r.id, chunk) })
		}
	}
	return nil
}

// arrive accounts that p was read up to a position.
func (r *replay) arrive(p *replayPart, to int64, records []*kgo.Record) {
	var bytes, charged int64
	for _, rec := range records {
		bytes, charged = bytes+cost(rec), charged+r.lane.route.cost(rec)
	}
	n := int64(len(records))
	r.mu.Lock()
	p.Records, p.Bytes, p.Holes = p.Records+n, p.Bytes+bytes-n*messageOverhead, p.Holes+to-p.at-n
	if p.at = to; n > 0 {
		p.handed = records[n-1].Offset + 1
	}
	r.mu.Unlock()
	if n > 0 {
		r.gate.take(r.Topic, charged)
	}
}

// silence ends a partition whose log says that it goes on, and brings nothing.
func (r *replay) silence(p *replayPart) {
	r.mu.Lock()
	p.Silent = p.End - p.at
	r.mu.Unlock()
	r.arrive(p, p.End, nil)
}

func (r *replay) note(trouble string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = trouble
}

// describe asks for the topic's id and the leaders of its partitions.
func (r *replay) describe(ctx context.Context) (kadm.TopicDetail, error) {
	topics, err := r.admin.ListTopics(ctx, r.Topic)
	d := topics[r.Topic]
	if err = cmp.Or(err, d.Err); err != nil {
		return d, fmt.Errorf("asking %s for topic %s: %w", strings.Join(r.Brokers, ", "), r.Topic, err)
	}
	return d, nil
}
