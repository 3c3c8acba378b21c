package duckdb

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// simulation runs the merge over a world as schedules do: late, twice, at once.
type simulation struct {
	*world
	warehouse *Warehouse
	landed    int
	rng       *rand.Rand

	runs, pairs, cancelled int
	midway                 []finding // what current and latest disagree on after two days
}

// start creates the objects, with a change to the text of one statement where
// a test wants to see what breaks.
func start(ctx context.Context, tb testing.TB, w *world, change map[string]func(string) string) *simulation {
	tb.Helper()
	statements, err := warehouse.Render(w.spec)
	if err != nil {
		tb.Fatal(err)
	}
	for i, s := range statements {
		if f := change[s.Name]; f != nil {
			statements[i].SQL = f(s.SQL)
			if statements[i].SQL == s.SQL {
				tb.Fatalf("nothing changed in %s: the test does not know the text any more", s.Name)
			}
		}
	}
	b, err := Open(ctx, w.spec, statements)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { b.Close() })
	return &simulation{world: w, warehouse: b, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 1))}
}

// land writes what has landed by now.
func (s *simulation) land(ctx context.Context, tb testing.TB, now time.Time) {
	tb.Helper()
	var due []Delivery
	for ; s.landed < len(s.landings) && !s.landings[s.landed].at.After(now); s.landed++ {
		due = append(due, s.landings[s.landed].Delivery)
	}
	if err := s.warehouse.Land(ctx, due...); err != nil {
		tb.Fatal(err)
	}
}

// play is the whole history: two days of records with a merge each half hour,
// slower ones until everything has landed, then daily ones until marks are gone.
func (s *simulation) play(ctx context.Context, tb testing.TB) {
	tb.Helper()
	now := genesis
	for end := genesis.Add(hours); now.Before(end); now = now.Add(30 * time.Minute) {
		if s.rng.IntN(25) == 0 { // nobody runs the schedule for a while
			now = now.Add(time.Duration(s.rng.Int64N(int64(8 * time.Hour))))
		}
		s.land(ctx, tb, now)
		switch s.rng.IntN(4) {
		case 0:
			s.pair(ctx, tb, now)
		case 1:
			s.merge(ctx, tb, now)
			s.merge(ctx, tb, now.Add(time.Second))
		default:
			s.merge(ctx, tb, now)
		}
	}
	s.midway = s.disagreement(ctx, tb)
	for end := now.Add(longest + 48*time.Hour); now.Before(end); now = now.Add(4 * time.Hour) {
		s.land(ctx, tb, now)
		if s.rng.IntN(4) == 0 {
			s.pair(ctx, tb, now)
		} else {
			s.merge(ctx, tb, now)
		}
	}
	if s.landed < len(s.landings) {
		tb.Fatalf("%d deliveries never landed", len(s.landings)-s.landed)
	}
	for range 9 {
		now = now.Add(25 * time.Hour)
		s.merge(ctx, tb, now)
	}
}

// disagreement is between the current rows that the merge keeps and those that
// the log has.
func (s *simulation) disagreement(ctx context.Context, tb testing.TB) []finding {
	tb.Helper()
	if s.spec.NoCurrent {
		return nil
	}
	lines := func(view string) []string {
		return texts(ctx, tb, s.warehouse.DB, "SELECT "+s.currentRows()+" FROM "+s.warehouse.Table(view))
	}
	return differ("midway current", lines("latest"), lines("current"))
}

func (s *simulation) merge(ctx context.Context, tb testing.TB, now time.Time) {
	tb.Helper()
	s.runs++
	if err := s.warehouse.Merge(ctx, now, nil); err != nil {
		tb.Fatalf("merge at %v: %v", now, err)
	}
}

// pair runs two merges at once: before each statement of either, a seeded
// choice says whose turn it is. At most one may fail, and only by the conflict.
func (s *simulation) pair(ctx context.Context, tb testing.TB, now time.Time) {
	tb.Helper()
	type side struct {
		ask, grant chan struct{} // the run writes, then reads
		done       chan error    // the run writes once
		waiting    bool
	}
	sides := make([]*side, 2)
	for i := range sides {
		d := &side{make(chan struct{}), make(chan struct{}), make(chan error, 1), false}
		sides[i] = d
		go func() {
			d.done <- s.warehouse.Merge(ctx, now.Add(time.Duration(i)*time.Second), func() {
				d.ask <- struct{}{}
				<-d.grant
			})
		}()
	}
	var failed []error
	for alive := sides; len(alive) > 0; {
		var left []*side
		for _, d := range alive {
			if d.waiting {
				left = append(left, d)
				continue
			}
			select {
			case <-d.ask:
				d.waiting = true
				left = append(left, d)
			case err := <-d.done:
				if err != nil {
					failed = append(failed, err)
				}
			}
		}
		if alive = left; len(alive) > 0 {
			d := alive[s.rng.IntN(len(alive))]
			d.waiting = false
			d.grant <- struct{}{}
		}
	}
	s.pairs++
	s.runs += 2
	s.cancelled += len(failed)
	for _, err := range failed {
		if len(failed) > 1 || !strings.Contains(err.Error(), "onflict") {
			tb.Fatalf("pair at %v: %v", now, failed)
		}
	}
}
