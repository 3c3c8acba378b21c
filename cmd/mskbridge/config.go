package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/logging"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, secrets redacted",
		Long: `Print the effective configuration: every setting, the sizes derived from the
memory limit, and the routes. It reads the environment and the routes file,
dials nothing, and exits 2 with one line that names every problem, those
of values that cannot be read first.`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load()
			if err != nil {
				return err
			}
			text, err := cfg.Render()
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "reference",
		Short: "Print the reference of all settings as Markdown",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), config.Table())
			return err
		},
	})
	return cmd
}

// newLog writes to the standard output of the process, where Cloud Run reads.
func newLog(w io.Writer, cfg *config.Config) (*slog.Logger, *logging.Limiter) {
	if f, ok := w.(*os.File); ok {
		return logging.Open(f, cfg.LogLevel)
	}
	return logging.NewJSON(w, cfg.LogLevel)
}
