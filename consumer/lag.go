package consumer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// lookEvery is the age at which the group-wide lag is looked up again.
const lookEvery = 10 * time.Second

// Lag is how far the whole group, all instances of it, is behind.
type Lag struct {
	Group   string
	Records int64
	// Seconds is how long ago the oldest record that is not committed was
	// written, told from the end offsets seen over time, not from record
	// timestamps, which producers choose. It is a lower bound for what was
	// already there when this instance started.
	Seconds float64
	Routes  []RouteLag // sorted by topic
	At      time.Time
}

// RouteLag is the lag of one route. Known is false while Kafka could not say.
type RouteLag struct {
	Topic   string
	Records int64
	Seconds float64
	Known   bool
	// Reason is what keeps records from being read, "" for nothing special.
	Reason string
}

// lagCache keeps the last lag and what is needed to tell seconds.
type lagCache struct {
	mu      sync.Mutex // guards all below
	last    Lag
	history map[string]map[int32]*endHistory
}

// Lag returns the lag as of at most ten seconds and one look ago; the zero
// value of At means that no look has succeeded yet.
func (c *Consumer) Lag() Lag {
	c.lag.mu.Lock()
	defer c.lag.mu.Unlock()
	l := c.lag.last
	l.Routes = slices.Clone(l.Routes)
	return l
}

// forget drops what is known of a topic that is no route any more.
func (l *lagCache) forget(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.history, topic)
	l.last.Routes = slices.DeleteFunc(slices.Clone(l.last.Routes), func(r RouteLag) bool { return r.Topic == topic })
}

// look watches the group and the topics until ctx ends.
func (c *Consumer) look(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		c.lookStamp.Store(time.Now().UnixNano())
		// While nothing has answered yet, look at each wake.
		if time.Since(last) >= lookEvery || !c.answered.Load() {
			last = time.Now()
			c.lookOnce(ctx)
		}
		timer.Reset(min(wakeEvery, lookEvery/2))
	}
}

// lookOnce asks for the committed, first and end offsets of all routes.
func (c *Consumer) lookOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wakeEvery)
	defer cancel()
	topics := make([]string, 0, len(c.lanes.all()))
	for t := range c.lanes.all() {
		topics = append(topics, t)
	}
	if len(topics) == 0 {
		return // to ask for none is to ask for all
	}
	admin := kadm.NewClient(c.client.Load())
	starts, ends, committed, err := offsets(ctx, admin, c.opts.Group, topics)
	if err != nil {
		if ctx.Err() == nil || !c.answered.Load() {
			c.noteGroup("", err)
		}
		return
	}
	c.answered.Store(true)
	c.noteHealed("")
	c.noteTopics(ctx, topics, ends)
	now := time.Now()
	stable, err := admin.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		stable = nil // the next look will know
	}
	c.lag.update(now, c.opts.Group, topics, starts, ends, committed, c.watchLogs(now, starts, ends, stable))
	c.watchTopics(ctx, admin, topics)
	c.watchGroup(ctx, now, admin)
}

// offsets returns what it knows, also with an error.
func offsets(ctx context.Context, admin *kadm.Client, group string, topics []string) (starts, ends kadm.ListedOffsets, committed kadm.OffsetResponses, err error) {
	if ends, err = admin.ListEndOffsets(ctx, topics...); err != nil {
		return nil, nil, nil, fmt.Errorf("listing end offsets: %w", err)
	}
	if starts, err = admin.ListStartOffsets(ctx, topics...); err != nil {
		return nil, ends, nil, fmt.Errorf("listing start offsets: %w", err)
	}
	// A group that has never committed is Missing to newer brokers: it has no commits.
	if committed, err = admin.FetchOffsets(ctx, group); err != nil && causeOf(err) != Missing {
		return starts, ends, nil, fmt.Errorf("fetching the committed offsets of group %s: %w", group, err)
	}
	return starts, ends, committed, nil
}

// noteTopics remembers which topics Kafka refuses or does not have, and readmits
// those that it let us ask for again.
func (c *Consumer) noteTopics(ctx context.Context, topics []string, ends kadm.ListedOffsets) {
	for _, t := range topics {
		listed := ends[t]
		if len(listed) == 0 {
			c.noteMissing(t, nil)
			continue
		}
		var err error
		for _, p := range listed {
			if p.Err != nil {
				err = p.Err
			}
		}
		if err != nil {
			c.noteFetch(t, -1, err)
		} else if c.troubles.takeGivenUp(t) {
			c.readmit(ctx, t)
		}
	}
}

// update computes the lag from one look.
func (l *lagCache) update(now time.Time, group string, topics []string, starts, ends kadm.ListedOffsets, committed kadm.OffsetResponses, why map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.history == nil {
		l.history = map[string]map[int32]*endHistory{}
	}
	lag := Lag{Group: group, At: now}
	for _, t := range topics {
		r := RouteLag{Topic: t, Reason: why[t]}
		if l.history[t] == nil {
			l.history[t] = map[int32]*endHistory{}
		}
		for n, end := range ends[t] {
			if end.Err != nil {
				continue
			}
			h := l.history[t][n]
			if h == nil {
				h = &endHistory{}
				l.history[t][n] = h
			}
			h.add(now, end.Offset)
			next := int64(0)
			if start, ok := starts.Lookup(t, n); ok && start.Err == nil {
				next = start.Offset
			}
			if at, ok := committed.Lookup(t, n); ok && at.Err == nil {
				next = max(next, at.At)
			}
			r.Known = true
			r.Records += max(end.Offset-next, 0)
			r.Seconds = max(r.Seconds, h.behind(now, next).Seconds())
		}
		lag.Records += r.Records
		lag.Seconds = max(lag.Seconds, r.Seconds)
		lag.Routes = append(lag.Routes, r)
	}
	slices.SortFunc(lag.Routes, func(a, b RouteLag) int { return strings.Compare(a.Topic, b.Topic) })
	l.last = lag
}

// endHistory remembers when the end of a partition's log was seen where, in at
// most maxSamples samples: when full, every second one is forgotten, so that
// what is old is known coarsely and memory is bounded.
type endHistory struct{ samples []endSample }

type endSample struct {
	at  time.Time
	end int64
}

const maxSamples = 64

func (h *endHistory) add(now time.Time, end int64) {
	if n := len(h.samples); n > 1 && h.samples[n-1].end == end && h.samples[n-2].end == end {
		h.samples[n-1].at = now
		return
	}
	if len(h.samples) == maxSamples {
		for i := range maxSamples / 2 {
			h.samples[i] = h.samples[2*i+1]
		}
		h.samples = h.samples[:maxSamples/2]
	}
	h.samples = append(h.samples, endSample{at: now, end: end})
}

// behind returns how long the record at next has been there: it was written
// after the last sample whose end was not above it.
func (h *endHistory) behind(now time.Time, next int64) time.Duration {
	n := len(h.samples)
	if n == 0 || next >= h.samples[n-1].end {
		return 0
	}
	since := h.samples[0].at
	for _, s := range h.samples {
		if s.end > next {
			break
		}
		since = s.at
	}
	return now.Sub(since)
}
