package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/sink"
)

// Limits of time of check, which ends within 30 s whatever hangs: at most 2 s
// go before for the project.
const (
	checkLimit = 24 * time.Second
	checkGrace = 2 * time.Second // for a side that does not look at its context
)

func newCheck() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check everything that run needs, and change nothing",
		Long: `Check the configuration, reach every broker and Pub/Sub as run would, and say
for each thing that would not work what to do about it. It joins no group,
commits nothing, creates nothing and publishes nothing, and ends within 30
seconds.

Exit codes: 0 all would work, warnings allowed; 1 something would break; 2
configuration or usage; 3 something that matters could not be found out.`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fault.Exit(fault.CodeUsage, fmt.Errorf("--output %q is not table or json", output))
			}
			return runCheck(cmd.Context(), cmd.OutOrStdout(), output)
		},
	}
	cmd.Flags().StringVar(&output, "output", "table", "table or json")
	return cmd
}

func runCheck(ctx context.Context, out io.Writer, output string) error {
	p := &preflight{platform: config.ReadPlatform(), now: time.Now()}
	err := p.look(ctx)
	if err != nil {
		p.Add(sectionProcess, "configuration", check.Fail, oneLine(err), `see "mskbridge config reference"`)
	}
	show := func() error {
		f, ok := out.(*os.File)
		return p.Table(out, ok && term.IsTerminal(int(f.Fd())))
	}
	if output == "json" {
		show = func() error { return p.JSON(out) }
	}
	if showErr := show(); showErr != nil {
		return showErr
	}
	if err != nil {
		return err
	}
	switch p.Code() {
	case fault.CodeOK:
		return nil
	case fault.CodeUnknown:
		return fault.Exit(p.Code(), errors.New("check could not find out everything that matters"))
	default:
		return fault.Exit(p.Code(), errors.New("check found what would break"))
	}
}

// preflight turns what both sides and the process say into rows.
type preflight struct {
	check.Report
	cfg       *config.Config
	platform  config.Platform
	principal string
	now       time.Time
}

// The sections, in the order in which rows are added.
const (
	sectionProcess = "process"
	sectionBrokers = "kafka brokers"
	sectionTopics  = "kafka topics"
	sectionGroup   = "kafka group"
	sectionPubSub  = "pub/sub"
	sectionBQ      = "bigquery"
)

// look gathers and adds all rows. An error is about the configuration.
func (p *preflight) look(ctx context.Context) error {
	var err error
	if p.cfg, err = config.Load(); err != nil {
		return err
	}
	if err := p.cfg.ResolveProject(ctx, config.MetadataProject); err != nil {
		return err
	}
	in, err := consumerOptions(ctx, p.cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	p.principal = in.Auth.Principal
	asking, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	kafka := start(asking, func(ctx context.Context) (*consumer.Inspection, error) { return consumer.Inspect(ctx, in) })
	pubsub := start(asking, func(ctx context.Context) (*sink.Probed, error) { return sink.Probe(ctx, sinkOptions(p.cfg)) })
	tables := start(asking, p.lookAtTables)
	late, cancelLate := context.WithTimeout(ctx, checkLimit+checkGrace)
	defer cancelLate()
	inspection, kafkaErr := wait(late, kafka)
	probed, pubsubErr := wait(late, pubsub)
	found, tablesErr := wait(late, tables)

	p.process(inspection, probed)
	p.kafka(inspection, kafkaErr)
	p.pubsub(inspection, probed, pubsubErr)
	p.bigquery(found, tablesErr)
	return nil
}

// outcome is what a side said.
type outcome[T any] struct {
	found T
	err   error
}

// start asks a side. Its outcome is sent once.
func start[T any](ctx context.Context, ask func(context.Context) (T, error)) <-chan outcome[T] {
	c := make(chan outcome[T], 1)
	go func() {
		found, err := ask(ctx)
		c <- outcome[T]{found, err}
	}()
	return c
}

// wait leaves a side behind that does not end in time.
func wait[T any](ctx context.Context, c <-chan outcome[T]) (T, error) {
	select {
	case o := <-c:
		return o.found, o.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("waiting for an answer: %w", ctx.Err())
	}
}
