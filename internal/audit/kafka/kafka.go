// Package kafka is the Kafka side of an audit: it asks where logs stand through
// consumer.InspectSince and reads ranges again through consumer.Replay, with a
// publisher that only looks. It joins no group and commits and publishes nothing.
package kafka

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/audit"
	"github.com/mskbridge/mskbridge/internal/message"
)

// What one reading looks at before it has seen enough: beyond it, the records
// that were there stand for the rest of the range.
const (
	mostRecords = 10_000
	mostBytes   = 256 << 20 // as messages
	// window bounds what is read beyond that.
	window = 4 << 20
)

// errEnough ends a reading.
var errEnough = errors.New("enough was read")

// Side is Kafka as an audit asks it. Options have the routes; their destinations
// are never dialled. Stores names the topics whose oversize values go to a
// store, so that they are published and not parked.
type Side struct {
	Options consumer.Options
	Stores  map[string]bool
}

// Extents implements audit.Kafka. It returns within 22 s.
func (s *Side) Extents(ctx context.Context, topic string, since time.Time) (*audit.Topic, error) {
	o := s.Options
	k := slices.IndexFunc(o.Routes, func(r consumer.Route) bool { return r.Topic == topic })
	if k < 0 {
		return nil, fmt.Errorf("no route has the topic %q", topic)
	}
	o.Routes = o.Routes[k : k+1]
	found, err := consumer.InspectSince(ctx, o, since)
	if err != nil {
		return nil, err
	}
	if found.Err != nil {
		return nil, fmt.Errorf("asking Kafka (mskbridge check says more): %w", found.Err)
	}
	t := found.Topics[0]
	if t.Err != nil {
		return nil, fmt.Errorf("asking Kafka for topic %s (mskbridge check says more): %w", topic, t.Err)
	}
	if found.OffsetsErr != nil {
		return nil, fmt.Errorf("asking Kafka for offsets of topic %s (mskbridge check says more): %w", topic, found.OffsetsErr)
	}
	out := &audit.Topic{ID: "-"}
	if t.ID != [16]byte{} {
		out.ID = base64.RawURLEncoding.EncodeToString(t.ID[:])
	}
	for _, p := range t.Partitions {
		out.Partitions = append(out.Partitions, audit.Extent{
			Partition: p.Partition, Start: p.Start, End: p.End, Since: p.Since, Committed: p.Committed, Err: p.Err,
		})
	}
	return out, nil
}

// Reread implements audit.Kafka.
func (s *Side) Reread(ctx context.Context, topic string, partition int32, r audit.Range) (*audit.Reread, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	look := &looker{stop: stop, stores: s.Stores[topic]}
	o := s.Options
	// Each record gets a batch of its own, whose span says where it is.
	o.Sizes.SlabBytes, o.Sizes.Linger, o.Sizes.Window = 1, 0, min(window, o.Sizes.Window)
	done, err := consumer.Replay(ctx, consumer.ReplayOptions{
		Options: o, Topic: topic, Range: consumer.Range{Partition: partition, From: r.From, To: r.To},
	}, look)
	if done == nil {
		return nil, err
	}
	p := done.Partitions[0]
	look.mu.Lock()
	defer look.mu.Unlock()
	if p.Gone > p.First-r.From {
		return nil, fmt.Errorf("Kafka deleted offsets of partition %d while they were read: run it again", partition) //nolint:staticcheck // a name
	}
	out := &audit.Reread{Start: r.From + p.Gone, Silent: audit.Range{From: p.End - p.Silent, To: p.End}, Next: p.Next, Records: look.records, Parked: look.parked, Oldest: look.oldest}
	switch enough := errors.Is(context.Cause(ctx), errEnough); {
	case err != nil && !enough:
		return nil, err
	case !enough:
		out.Next = r.To
		if p.Ahead > 0 {
			return nil, fmt.Errorf("%d offsets that were committed are not in the log: it was cut", p.Ahead)
		}
	}
	return out, nil
}

// looker is a publisher that publishes nothing and remembers what came.
type looker struct {
	stop   context.CancelCauseFunc
	stores bool

	mu      sync.Mutex // guards what follows
	records []audit.Range
	parked  []audit.Range
	bytes   int
	oldest  time.Time
}

// Publish looks at a batch of one record.
func (l *looker) Publish(_ context.Context, b *message.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, span := range b.Spans {
		at := audit.Range{From: span.First, To: span.Last + 1}
		if b.Refusal != nil && !(l.stores && b.Refusal.Reason == message.TooLarge) {
			l.parked = append(l.parked, at)
		} else {
			l.records = append(l.records, at)
			l.date(b)
		}
	}
	if l.bytes += b.Size(); len(l.records)+len(l.parked) >= mostRecords || l.bytes >= mostBytes {
		l.stop(errEnough)
	}
	return nil
}

// date keeps the least timestamp.
func (l *looker) date(b *message.Batch) {
	text, ok := message.Attribute(b.Part(0, b.Len()), message.AttrTimestamp)
	if ms, err := strconv.ParseInt(text, 10, 64); ok && err == nil {
		if at := time.UnixMilli(ms); l.oldest.IsZero() || at.Before(l.oldest) {
			l.oldest = at
		}
	}
}
