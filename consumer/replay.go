package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/mskbridge/mskbridge/internal/fault"
)

const (
	// planLimit is how long a replay asks where its range lies before it gives up.
	planLimit = 30 * time.Second
	// readersAtOnce is how many partitions a replay reads at the same time: each
	// may overshoot its share of the window by one fetch.
	readersAtOnce = 4
)

// Range chooses what to publish again: offsets of one partition or, when Since
// is set, a time in all of them.
type Range struct {
	Partition int32
	From, To  int64 // first, and next after the last
	// Since and Until choose by record timestamp, as Kafka finds them: from the
	// first record that is not before Since up to the first that is not before Until.
	Since, Until time.Time
}

// Check reports whether there can be such a range.
func (r Range) Check() error {
	switch {
	case !r.Since.IsZero() && !r.Until.After(r.Since):
		return fmt.Errorf("the range from %s until %s is empty", r.Since.Format(time.RFC3339), r.Until.Format(time.RFC3339))
	case !r.Since.IsZero():
		return nil
	case r.Partition < 0 || r.From < 0:
		return errors.New("partitions and offsets are not negative")
	case r.To <= r.From:
		return fmt.Errorf("the range from offset %d to %d is empty: to is the offset after the last one", r.From, r.To)
	default:
		return nil
	}
}

// ReplayOptions say what to publish again, and how. Options have the route;
// what it skips is published all the same.
type ReplayOptions struct {
	Options
	Range

	Topic string
	// Rate bounds the records a second; 0 does not.
	Rate int
	// Progress, unless nil, is called about once a second, by one goroutine.
	Progress func(*Replayed)
}

// Replayed is how far a replay has come.
type Replayed struct {
	Partitions []ReplayedPartition `json:"partitions"` // sorted
	// Trouble is what keeps it from reading on just now, "" for nothing.
	Trouble string `json:"trouble,omitempty"`
}

// ReplayedPartition is the part of one partition. First to Next is done, Next
// to End is not; a replay that goes on begins at Next.
type ReplayedPartition struct {
	Partition int32 `json:"partition"`
	First     int64 `json:"first"` // of what Kafka has of the range
	End       int64 `json:"end"`   // next after the last of it
	Next      int64 `json:"next"`  // everything below is acknowledged or parked
	Records   int64 `json:"records"`
	Bytes     int64 `json:"bytes"` // of keys, values and headers
	Holes     int64 `json:"holes"` // offsets that compaction or transactions took
	Gone      int64 `json:"gone"`  // offsets of the range that were deleted from Kafka
	Ahead     int64 `json:"ahead"` // offsets not written yet, or behind the begin of an open transaction
	// Silent are the last of the Holes: offsets for which Kafka answered with
	// nothing for 30 s, though its log goes on. Compaction may have taken them.
	Silent int64 `json:"silent"`
}

// replay is one call of Replay: a lane as Run has it, fed by readers of its own.
type replay struct {
	ReplayOptions
	client *kgo.Client
	admin  *kadm.Client
	lane   *lane
	gate   *gate
	brake  brake
	limit  *rate.Limiter
	id     topicID
	// decompressor is the client's, with its limit.
	decompressor kgo.Decompressor

	mu      sync.Mutex // guards what follows
	parts   []*replayPart
	trouble string
}

// replayPart is a partition of a replay. Its reader writes, others look.
type replayPart struct {
	ReplayedPartition
	at     int64 // to be read next
	handed int64 // after the last record that the lane got
	safe   int64 // what the lane has marked
	leader int32 // -1 when not known; only for the reader
}

// Replay publishes a range again, through p and under the same identities as
// Run does. It joins no group and commits nothing. It returns when everything
// is acknowledged or parked, which may take as long as p takes, or when ctx
// ends, which is an error: then it has waited for what was in flight for at most
// 5.5 s. What it returns beside an error says where to go on; nil means that
// nothing was begun. A range that cannot be carries fault.CodeUsage.
func Replay(ctx context.Context, o ReplayOptions, p Publisher) (*Replayed, error) {
	k := slices.IndexFunc(o.Routes, func(r Route) bool { return r.Topic == o.Topic })
	if k < 0 {
		return nil, fault.Exit(fault.CodeUsage, fmt.Errorf("no route has the topic %q", o.Topic))
	}
	if err := cmp.Or(o.Range.Check(), o.Options.check()); err != nil {
		return nil, fault.Exit(fault.CodeUsage, err)
	}
	if o.Events == nil {
		o.Events = func(fault.Event) {}
	}
	client, err := kgo.NewClient(append(o.reach(), batchLimits()...)...)
	if err != nil {
		return nil, fmt.Errorf("configuring the kafka client: %w", err)
	}
	defer within(context.WithoutCancel(ctx), closeStop, func(context.Context) { client.Close() })
	route := o.Routes[k]
	route.Skip = nil
	r := &replay{ReplayOptions: o, client: client, admin: kadm.NewClient(client), limit: rate.NewLimiter(rate.Inf, 1<<30)}
	if o.Rate > 0 {
		r.limit = rate.NewLimiter(rate.Limit(o.Rate), max(o.Rate/10, 1))
	}
	r.decompressor, _ = client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	r.gate = newGate(o.Sizes.Window, &r.brake, []Route{route})
	r.lane = newLane(route, &r.Options, p, r.gate, new(slabPool))
	r.lane.mark = r.mark
	if err := r.plan(ctx); err != nil {
		return nil, err
	}
	err = r.run(ctx)
	return r.replayed(), err
}

// plan finds out which offsets the range has, so that the end is known before
// the beginning is read.
func (r *replay) plan(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	topic, err := r.describe(ctx)
	if err != nil {
		return err
	}
	r.id = topicID(topic.ID)
	starts, err := r.admin.ListStartOffsets(ctx, r.Topic)
	ends, err2 := r.admin.ListCommittedOffsets(ctx, r.Topic)
	var since, until kadm.ListedOffsets
	if err = cmp.Or(err, err2); err == nil && !r.Since.IsZero() {
		since, err = r.admin.ListOffsetsAfterMilli(ctx, r.Since.UnixMilli(), r.Topic)
		until, err2 = r.admin.ListOffsetsAfterMilli(ctx, r.Until.UnixMilli(), r.Topic)
	}
	if err = cmp.Or(err, err2, starts.Error(), ends.Error(), since.Error(), until.Error()); err != nil {
		return fmt.Errorf("asking for offsets of topic %s: %w", r.Topic, err)
	}
	if _, ok := topic.Partitions[r.Partition]; !ok && r.Since.IsZero() {
		return fault.Exit(fault.CodeUsage, fmt.Errorf("topic %s has no partition %d, but %d from 0 on", r.Topic, r.Partition, len(topic.Partitions)))
	}
	for _, n := range topic.Partitions.Numbers() {
		from, to := r.From, r.To
		if !r.Since.IsZero() {
			from, to = offsetOf(since, r.Topic, n), offsetOf(until, r.Topic, n)
		} else if n != r.Partition {
			continue
		}
		start, end := offsetOf(starts, r.Topic, n), offsetOf(ends, r.Topic, n)
		p := &replayPart{leader: -1}
		p.Partition, p.Gone, p.Ahead = n, max(min(start, to)-from, 0), max(to-max(end, from), 0)
		p.First = min(max(from, start), to)
		p.End = max(min(to, end), p.First)
		p.at, p.handed, p.safe = p.First, p.First, p.First
		r.parts = append(r.parts, p)
	}
	return nil
}

// run reads, publishes and waits until all is settled or ctx ends.
func (r *replay) run(ctx context.Context) error {
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var lane sync.WaitGroup
	lane.Go(func() { r.lane.run(work) })
	r.lane.inbox.put(func() {
		for _, p := range r.parts {
			r.lane.assign([]int32{p.Partition})
			r.lane.begin(p.Partition, position{p.First, -1}, r.id, p.First)
		}
	})
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	read := make(chan struct{})
	go func() {
		defer close(read)
		r.readAll(reading, stop)
	}()
	r.follow(reading, read)
	<-read
	// Nothing is open unless the replay ends before its time.
	done := make(chan struct{})
	r.lane.inbox.put(func() { r.lane.retire(nil, drainStop, drainStop, done) })
	<-done
	abandon()
	lane.Wait()
	if reading.Err() != nil {
		return fmt.Errorf("replaying topic %s: %w", r.Topic, context.Cause(reading))
	}
	return nil
}

// follow returns when all was read and nothing is in hand, or when ctx ends.
func (r *replay) follow(ctx context.Context, read <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-read:
			if inHand, _ := r.gate.hands(); inHand == 0 {
				return
			}
			select { // until something is given back
			case <-ctx.Done():
			case <-r.gate.wake:
			case <-tick.C:
				r.tell()
			}
		case <-tick.C:
			r.tell()
		}
	}
}

func (r *replay) tell() {
	if r.Progress != nil {
		r.Progress(r.replayed())
	}
}

// mark is told by the lane what became safe.
func (r *replay) mark(marks map[string]map[int32]kgo.EpochOffset) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
		if at, ok := marks[r.Topic][p.Partition]; ok {
			p.safe = at.Offset
		}
	}
}

func (r *replay) replayed() *Replayed {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := &Replayed{Trouble: r.trouble}
	for _, p := range r.parts {
		part := p.ReplayedPartition
		if part.Next = p.safe; p.safe >= p.handed {
			part.Next = p.at // what lies between holds no records
		}
		now.Partitions = append(now.Partitions, part)
	}
	return now
}
