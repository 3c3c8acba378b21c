//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

// asCommand makes the test binary behave as mskbridge.
const asCommand = "MSKBRIDGE_TESTED_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	m.Run() // its result is the exit code
}

// command is mskbridge as a process of its own, in the environment of the test.
type command struct {
	*process.Process
	t   *testing.T
	url string
}

func launch(t *testing.T, args ...string) *command {
	t.Helper()
	ports, err := process.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), asCommand+"=1", fmt.Sprintf("PORT=%d", ports[0]))
	p, err := process.Start(process.Spec{Name: args[0], Path: exe, Args: args, Env: env, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c := &command{p, t, fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", args[0], c.Tail(30))
		}
	})
	return c
}

// get asks a page; no answer is status 0.
func (c *command) get(path string) (int, string) {
	client := http.Client{Timeout: 2 * time.Second}
	r, err := client.Get(c.url + path)
	if err != nil {
		return 0, ""
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(body)
}

// await waits for something that the process brings about.
func (c *command) await(what string, done func() bool) {
	c.t.Helper()
	deadline, tick := time.NewTimer(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-c.Done():
			c.t.Fatalf("ended with exit code %d before: %s", c.ExitCode(), what)
		case <-deadline.C:
			c.t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func (c *command) terminate() int {
	c.t.Helper()
	if err := c.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		c.t.Error("still there 10 s after SIGTERM")
		c.Kill()
	}
	return c.ExitCode()
}

func TestReplaySaysWhereToGoOnAfterSIGTERM(t *testing.T) {
	s := newScene(t, fakekafka.Options{})
	s.produce(5000, 0)
	c := launch(t, "replay", "--route", "orders", "--partition", "1", "--from", "0", "--to", "5000", "--rate", "200")
	c.await("messages arrive", func() bool { return len(s.keeps.Of(ordersTopic)) > 100 })
	if code := c.terminate(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	n := len(s.keeps.Of(ordersTopic))
	if want := fmt.Sprintf("go on with: mskbridge replay --route orders --partition 1 --from %d --to 5000", n); !strings.Contains(c.Tail(1), want) {
		t.Errorf("%d messages are there, but the last line is %s", n, c.Tail(1))
	}
}
