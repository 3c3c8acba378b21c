package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
)

// watchdogAfter ends a stop that hangs in spite of its limits, before Cloud Run
// kills the process at ten seconds without a word.
const watchdogAfter = 9 * time.Second

func newRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the bridge (the default)",
		Long: `Run the bridge until SIGTERM or SIGINT; it then drains, commits, leaves the
group and exits within 10 seconds whatever hangs.`,
		Args: usage(cobra.NoArgs),
		RunE: runBridge,
	}
}

func runBridge(cmd *cobra.Command, _ []string) error {
	ctx := cmd.Context()
	cfg, err := config.Load()
	if err != nil {
		return err
	}
	if err := cfg.ResolveProject(ctx, config.MetadataProject); err != nil {
		return err
	}
	log, end := begin(ctx, cfg, cmd.OutOrStdout())
	defer end()

	b, err := newBridge(ctx, cfg, log)
	if err != nil {
		return err
	}
	return b.run(ctx)
}

// begin gives the process what every command that reads records has: the limits
// of its memory, a log on w, and a bound on its stop. Call end at last.
func begin(ctx context.Context, cfg *config.Config, w io.Writer) (log *slog.Logger, end func()) {
	debug.SetMemoryLimit(cfg.Sizes.GOMEMLIMIT)
	debug.SetGCPercent(cfg.Sizes.GOGC)
	log, repeats := newLog(w, cfg)
	callOff := watchdog(ctx)
	return log, func() { //nolint:contextcheck // lines come without a context
		callOff()
		repeats.Flush()
	}
}

// watchdog ends the process when it is still there some time after ctx ended.
// The function it returns calls it off.
func watchdog(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		time.AfterFunc(watchdogAfter, func() {
			os.Stderr.WriteString("mskbridge: the stop took too long; what was not acknowledged is not committed\n")
			os.Exit(fault.CodeFailed) //nolint:forbidigo // the watchdog: nothing may keep the process
		})
	})
}
