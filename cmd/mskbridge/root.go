package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// execute runs the command line and returns the exit code of the process.
func execute(args []string, stdout, stderr io.Writer) int {
	// A second signal changes nothing: the stop is bounded already.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT) //nolint:forbidigo // the root of all contexts
	defer stop()
	// A log reader that went away must not end the bridge as a crash would.
	signal.Ignore(syscall.SIGPIPE)
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "mskbridge: "+oneLine(err))
	}
	return fault.Code(err)
}

func oneLine(err error) string { return plain(err.Error()) }

// mostPlain bounds the text of a server, in bytes.
const mostPlain = 10 << 10

// plain is text of a server for a terminal, which it must not steer or fill.
func plain(s string) string {
	if len(s) > mostPlain {
		s = strings.ToValidUTF8(s[:mostPlain], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mskbridge",
		Short: "Pull Kafka topics into Google Pub/Sub, losing nothing",
		Long: `mskbridge pulls Kafka topics, publishes every record to Google Pub/Sub with an
idempotency key, and commits an offset only after Pub/Sub acknowledged the
publish. Without a command it runs the bridge.

It is configured by BRIDGE_* environment variables and, for the topics, by one
line of them or a routes file: see "mskbridge config reference".

Exit codes: 0 clean stop, 1 failed or found something, 2 configuration or
usage, 3 could not find out.`,
		Version:       versionText(),
		Args:          usage(knownCommand),
		RunE:          runBridge,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fault.Exit(fault.CodeUsage, fmt.Errorf("%w; see %q", err, cmd.CommandPath()+" --help"))
	})
	root.AddCommand(newRun(), newCheck(), newConfig(), newDemo(), newReplay(), newSQL(), newAudit(), newVersion())
	return root
}

// knownCommand refuses a first word that is no command, and names the nearest.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%q is not a command; did you mean %s?", args[0], near[0])
	}
	return fmt.Errorf("%q is not a command", args[0])
}

// usage gives what a check of arguments finds the exit code of a usage error.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return fault.Exit(fault.CodeUsage, fmt.Errorf("%w; see %q", err, cmd.CommandPath()+" --help"))
		}
		return nil
	}
}
