//go:build integration && unix

package integration

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// commits reads the group's committed offsets, each the next record to read,
// from the broker.
func (f *feed) commits(group string) (map[partition]int64, error) {
	answer, err := f.fetchOffsets(f.admin, group)
	if err != nil {
		// A client may go on asking a coordinator that was stopped.
		fresh, newErr := kgo.NewClient(f.client.Opts()...)
		if newErr != nil {
			return nil, newErr
		}
		defer fresh.Close()
		if answer, err = f.fetchOffsets(kadm.NewClient(fresh), group); err != nil {
			return nil, err
		}
	}
	all := map[partition]int64{}
	for topic, parts := range answer {
		for number, o := range parts {
			if o.Err == nil && o.At >= 0 {
				all[partition{topic, number}] = o.At
			}
		}
	}
	return all, nil
}

func (f *feed) fetchOffsets(admin *kadm.Client, group string) (kadm.OffsetResponses, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.t.Context()), 10*time.Second)
	defer cancel()
	answer, err := admin.FetchOffsets(ctx, group)
	for kerr.IsRetriable(err) && ctx.Err() == nil { // a new cluster has no coordinator yet
		answer, err = admin.FetchOffsets(ctx, group)
	}
	return answer, err
}

// checkCommits fails the test when the broker holds a committed offset beyond
// what was acknowledged. It reads the commits first, so that what is
// acknowledged meanwhile can only excuse it, never accuse it.
func (f *feed) checkCommits(group string) error {
	commits, err := f.commits(group)
	for p, next := range commits {
		if n := f.truth.unacknowledged(p, next); n > 0 {
			f.t.Errorf("%s/%d: next %d was committed over %d records that were not acknowledged", p.topic, p.number, next, n)
		}
	}
	return err
}

// awaitCommitted waits, while no bridge runs, until every record that the group
// has committed is seen at the destination: what a crash left there must cover
// the commits.
func (f *feed) awaitCommitted(group string) {
	f.t.Helper()
	commits, err := f.commits(group)
	if err != nil {
		f.t.Fatalf("reading committed offsets: %v", err)
	}
	eventually(f.t, 30*time.Second, "every committed record to be at the destination", func() bool {
		n := 0
		for p, next := range commits {
			n += f.truth.unacknowledged(p, next)
		}
		return n == 0
	})
}

// watchCommits checks the commits each 200 ms until stop is called or the test
// ends. stop returns the number of looks at a broker that answered.
func (f *feed) watchCommits(group string) (stop func() int) {
	end, looks := make(chan struct{}), make(chan int, 1)
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-end:
				looks <- n
				return
			case <-tick.C:
				if f.checkCommits(group) == nil {
					n++
				}
			}
		}
	}()
	stop = sync.OnceValue(func() int {
		close(end)
		return <-looks
	})
	f.t.Cleanup(func() { stop() })
	return stop
}

// committed counts the records below the committed offsets; the topics of a
// feed hold nothing but its records, so every offset is one.
func (f *feed) committed(group string) (n int) {
	f.t.Helper()
	commits, err := f.commits(group)
	if err != nil {
		f.t.Fatalf("reading committed offsets: %v", err)
	}
	for _, next := range commits {
		n += int(next)
	}
	return n
}

// awaitCommits waits until the group has committed everything produced.
func (f *feed) awaitCommits(group string) {
	f.t.Helper()
	eventually(f.t, 30*time.Second, "everything to be committed", func() bool {
		return f.committed(group) >= f.truth.now().produced
	})
}

// spread is who holds what in a group.
type spread struct {
	state   string
	members int
	held    int // partitions assigned
	least   int // to the member with the fewest
}

func (f *feed) spread(group string) spread {
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
	defer cancel()
	groups, err := f.admin.DescribeGroups(ctx, group)
	if err != nil {
		return spread{state: err.Error()}
	}
	g := groups[group]
	s := spread{state: g.State, members: len(g.Members), least: 1 << 30}
	for _, m := range g.Members {
		n := 0
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range a.Topics {
				n += len(topic.Partitions)
			}
		}
		s.held += n
		s.least = min(s.least, n)
	}
	return s
}

// awaitSpread waits until so many members share all partitions of so many
// topics and the group is at rest, and returns how long that took.
func (f *feed) awaitSpread(group string, members, topics int) time.Duration {
	f.t.Helper()
	const within = time.Minute
	all := partitions * topics
	var last spread
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < within {
		last = f.spread(group)
		if last.state == "Stable" && last.members == members && last.held == all && last.least > 0 {
			return since(began)
		}
		<-tick.C
	}
	f.t.Fatalf("after %v the group %s has not %d members with all %d partitions: %+v", within, group, members, all, last)
	return 0
}
