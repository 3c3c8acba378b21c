//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

const project = "bench"

// bridge is a program under test and how it is called.
type bridge struct {
	name string
	env  []string // beyond what every run sets
	args []string // only of the textbook loop
	ours bool
}

var (
	ours      = bridge{name: "mskbridge", ours: true}
	quick     = bridge{name: "mskbridge, profile latency", ours: true, env: []string{"BRIDGE_PROFILE=latency"}}
	stock     = bridge{name: "textbook, goroutine per record"}
	inOrder   = bridge{name: "textbook, results in order", args: []string{"-in-order"}}
	ourMemory = "256MiB" // BRIDGE_MEMORY; nothing bounds the textbook loop
)

// programs builds both programs into dir.
func programs(ctx context.Context, dir string) error {
	for _, path := range []string{"cmd/mskbridge", "bench/textbook"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", dir+"/", "github.com/mskbridge/mskbridge/"+path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", path, err, out)
		}
	}
	return nil
}

// running is a bridge at work, alone in its process.
type running struct {
	*process.Process
	name, group string
}

// start runs b from dir between two servers.
func (b bridge) start(dir string, brokers, topics []string, pubsub string) (*running, error) {
	group := fmt.Sprintf("bench-%x", time.Now().UnixNano())
	s := process.Spec{
		Name: "bridge", Dir: dir, Path: filepath.Join(dir, "textbook"),
		Args: append([]string{
			"-brokers", strings.Join(brokers, ","), "-topics", strings.Join(topics, ","), "-group", group, "-project", project,
		}, b.args...),
		Env: []string{"PUBSUB_EMULATOR_HOST=" + pubsub, "HOME=" + os.Getenv("HOME")},
	}
	if b.ours {
		s.Path, s.Args = filepath.Join(dir, "mskbridge"), []string{"run"}
		s.Env = append(s.Env,
			"BRIDGE_BROKERS="+strings.Join(brokers, ","), "BRIDGE_TOPICS="+strings.Join(topics, ","), "BRIDGE_GROUP="+group,
			"BRIDGE_PROJECT="+project, "BRIDGE_AUTH=plaintext", "BRIDGE_ALLOW_PLAINTEXT=true", "BRIDGE_MEMORY="+ourMemory, "PORT=0")
		s.Env = append(s.Env, b.env...)
	}
	p, err := process.Start(s)
	if err != nil {
		return nil, err
	}
	return &running{p, b.name, group}, nil
}

func (r *running) stop() { r.Stop(12 * time.Second) }

// alive returns an error with the last words of a bridge that has ended.
func (r *running) alive() error {
	if r.Running() {
		return nil
	}
	return fmt.Errorf("%s ended with exit code %d:\n%s", r.name, r.ExitCode(), r.Tail(5))
}

// cpu is the user and system time that the process has used so far, exact to
// the nanosecond where /proc counts in ticks of 10 ms.
func (r *running) cpu() (time.Duration, error) {
	const wholeProcess = 2              // CPUCLOCK_SCHED, of all threads
	clock := ^r.Pid()<<3 | wholeProcess // see clock_getcpuclockid(3)
	var t unix.Timespec
	if err := unix.ClockGettime(int32(clock), &t); err != nil {
		return 0, fmt.Errorf("reading the processor clock of %s: %w", r.name, err)
	}
	return time.Duration(t.Nano()), nil
}
