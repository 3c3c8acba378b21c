package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/stage"
)

// demo is one run of the demo.
type demo struct {
	records, topics, rate int
	length                time.Duration
	chaos                 bool
	seed                  uint64

	out   io.Writer
	stage *stage.Stage
	view  *view
}

// Times of the demo.
const (
	demoKills = 3
	// chaosRate leaves time for the group to miss each killed member.
	chaosRate   = 5_000
	demoRefresh = time.Second
	// settleRecords must arrive after a kill before the next one.
	settleRecords = 1000
	// demoPatience is how long a complete load may bring nothing new: a killed
	// member is missed for a session of 6 s before others get its partitions.
	demoPatience = 45 * time.Second
)

func newDemo() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the bridge between an embedded Kafka and Pub/Sub, and prove that nothing is missing",
		Long: `Start an embedded Kafka and an embedded strict Pub/Sub on loopback ports, create
topics, produce records as users have them, and run the bridge between them as
a process of its own. It ends with an account of every record, and exits 0 only
when none is missing.`,
		Example: `  mskbridge demo
  mskbridge demo --chaos
  mskbridge demo --topics 100 --records 1000000 --rate 0
  mskbridge demo --for 5m`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.check(); err != nil {
				return fault.Exit(fault.CodeUsage, err)
			}
			if d.length > 0 && !cmd.Flags().Changed("records") {
				d.records = 0
			}
			if d.chaos && !cmd.Flags().Changed("rate") {
				d.rate = chaosRate
			}
			d.out = cmd.OutOrStdout()
			return d.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.IntVar(&d.records, "records", 200_000, "records to produce; without it, --for sets no limit")
	f.IntVar(&d.topics, "topics", 24, "Kafka topics, with 3 partitions each, 1 to 500")
	f.IntVar(&d.rate, "rate", 20_000, "records produced a second, 0 for as fast as possible; 5000 with --chaos")
	f.DurationVar(&d.length, "for", 0, "how long to produce; 0 until --records are produced")
	f.BoolVar(&d.chaos, "chaos", false, "kill the bridge (SIGKILL) and start it again, up to 3 times in the middle; a short load has fewer")
	f.Uint64Var(&d.seed, "seed", 1, "seed of the records and of the moments of --chaos")
	return cmd
}

func (d *demo) check() error {
	switch {
	case d.topics < 1 || d.topics > 500:
		return errors.New("--topics must be 1 to 500")
	case d.records < 1:
		return errors.New("--records must be at least 1")
	case d.rate < 0:
		return errors.New("--rate must not be negative")
	case d.length < 0:
		return errors.New("--for must not be negative")
	}
	return nil
}

func (d *demo) run(ctx context.Context) (err error) {
	d.stage, err = stage.Start(stage.Options{Topics: d.topics, Records: d.records, Rate: d.rate, Seed: d.seed})
	if err != nil {
		return fmt.Errorf("starting the embedded Kafka and Pub/Sub: %w", err)
	}
	defer d.stage.Close()
	c := newChild(d.stage)
	if err := c.start(ctx); err != nil {
		return err
	}
	defer c.kill()
	d.view = newView(d.out, c, d.stage)
	fmt.Fprintf(d.out, "embedded kafka %s with %d topics of 3 partitions (%s, ...)\nembedded pub/sub %s, project %s, the same topics, dead letters to %s\nstatus page %s\n\n",
		d.stage.Brokers()[0], d.topics, d.stage.Topics()[0], d.stage.PubSub(), stage.Project, stage.DeadLetter, c.url())

	produced := make(chan error, 1) // written once by the goroutine below
	producing, done := context.WithCancel(ctx)
	defer done()
	if d.length > 0 {
		producing, done = context.WithTimeout(ctx, d.length)
		defer done()
	}
	go func() { produced <- d.stage.Produce(producing) }()
	kills := 0
	if err := d.watch(ctx, c, produced, &kills); err != nil {
		return err
	}
	d.view.end()
	if err := c.stop(); err != nil {
		return err
	}
	return d.prove(kills)
}

// watch shows progress until everything produced has arrived, and kills the
// bridge on the way when asked to.
func (d *demo) watch(ctx context.Context, c *child, produced <-chan error, kills *int) error {
	tick := time.NewTicker(demoRefresh)
	defer tick.Stop()
	reaper := newReaper(d)
	complete, best, moved := false, int64(-1), time.Now()
	for {
		select {
		case <-ctx.Done():
			return errors.New("interrupted before the account was complete")
		case err := <-produced:
			if err != nil {
				return err
			}
			complete, produced = true, nil
		case <-c.died:
			return fmt.Errorf("the bridge ended by itself: %s", c.lastLine())
		case <-tick.C:
		}
		counts := d.stage.Counts()
		d.view.draw(counts, time.Since(reaper.began)) //nolint:contextcheck // drawing waits for nothing
		arrived := counts.Produced - counts.Missing
		if arrived > best {
			best, moved = arrived, time.Now()
		}
		switch {
		case complete && counts.Missing == 0:
			return nil
		case complete && time.Since(moved) > demoPatience:
			return fmt.Errorf("%d records are missing and nothing has arrived for %s: %s", counts.Missing, demoPatience, c.lastLine())
		case d.chaos && reaper.due(arrived):
			*kills = reaper.kills
			d.view.note(fmt.Sprintf("kill -9 number %d after %d records", *kills, arrived))
			if err := c.restart(ctx); err != nil {
				return err
			}
		}
	}
}

// reaper chooses the moments at which the bridge is killed: a few, at random,
// in the middle of the load, and each only when the bridge works again.
type reaper struct {
	chance  *rand.Rand
	began   time.Time
	between time.Duration
	next    time.Time
	kills   int
	arrived int64 // records at the last kill
}

func newReaper(d *demo) *reaper {
	length := d.length
	if length == 0 && d.rate > 0 {
		length = time.Duration(d.records) * time.Second / time.Duration(d.rate)
	}
	r := &reaper{
		chance: rand.New(rand.NewPCG(d.seed, 1)),
		began:  time.Now(), between: max(length/(demoKills+1), 2*time.Second),
	}
	r.plan()
	return r
}

func (r *reaper) plan() {
	r.next = time.Now().Add(r.between/2 + time.Duration(r.chance.Int64N(int64(r.between))))
}

func (r *reaper) due(arrived int64) bool {
	if r.kills == demoKills || time.Now().Before(r.next) || arrived < r.arrived+settleRecords {
		return false
	}
	r.kills++
	r.arrived = arrived
	r.plan()
	return true
}

// prove prints the account and fails when a record is missing.
func (d *demo) prove(kills int) error {
	c := d.stage.Counts()
	fmt.Fprintf(d.out, `
produced        %9d  records that Kafka took
received        %9d  messages that Pub/Sub stored
distinct keys   %9d
duplicates      %9d  exact copies under the same key
parked          %9d  records on the dead-letter topic
missing         %9d
`, c.Produced, c.Received, c.Distinct, c.Duplicates, c.Parked, c.Missing)
	if kills > 0 {
		fmt.Fprintf(d.out, "killed          %9d  times (kill -9) in the middle\n", kills)
	}
	if !c.Proven() {
		return fmt.Errorf("not proven: %d missing, %d keys with differing copies, %d messages without a record", c.Missing, c.Conflicts, c.Strays)
	}
	if _, err := fmt.Fprintln(d.out, "\nproven: every record arrived under its own key"); err != nil {
		return fmt.Errorf("writing the account: %w", err)
	}
	return nil
}
