package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/internal/testbed/stage"
)

// childStart is how long the bridge may take to say where its status page is.
const childStart = 20 * time.Second

// child is the bridge of the demo: "mskbridge run" as a process of its own, so
// that it can be killed as a container is.
type child struct {
	env  []string
	port int           // fixed after the first start, so that the page stays where it is
	died chan struct{} // gets one value when the bridge ends unasked; read by the demo

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended

	mu    sync.Mutex // guards last and asked
	last  string     // last line worth showing
	asked bool       // its end was asked for
}

func newChild(s *stage.Stage) *child {
	return &child{died: make(chan struct{}, 1), env: []string{
		"BRIDGE_BROKERS=" + strings.Join(s.Brokers(), ","),
		"BRIDGE_TOPICS=" + strings.Join(s.Topics(), ","),
		"BRIDGE_DEAD_LETTER_TOPIC=" + stage.DeadLetter,
		"BRIDGE_PROJECT=" + stage.Project,
		"BRIDGE_CLUSTER=demo",
		"BRIDGE_AUTH=plaintext",
		"BRIDGE_SESSION_TIMEOUT=6s",
		"BRIDGE_MEMORY=256MiB",
		"PUBSUB_EMULATOR_HOST=" + s.PubSub(),
	}}
}

// start starts the bridge and returns when it has told its address.
func (c *child) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	c.cmd = exec.Command(self, "run") //nolint:gosec,noctx // this very program, whose end has rules of its own
	c.cmd.Env = append(c.env, "PORT="+strconv.Itoa(c.port))
	c.cmd.Stderr = c
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("reading the bridge's output: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("starting the bridge: %w", err)
	}
	c.mu.Lock()
	c.asked = false
	c.mu.Unlock()
	address := make(chan int, 1) // written once by read
	c.exited = make(chan struct{})
	go c.attend(c.cmd, out, address, c.exited)
	timeout := time.NewTimer(childStart)
	defer timeout.Stop()
	select {
	case c.port = <-address:
		return nil
	case <-c.exited:
		return fmt.Errorf("the bridge ended at once: %s", c.lastLine())
	case <-timeout.C:
		c.kill()
		return errors.New("the bridge did not start in time")
	case <-ctx.Done():
		c.kill()
		return ctx.Err()
	}
}

// attend reads the bridge's lines until it has ended.
func (c *child) attend(cmd *exec.Cmd, out io.Reader, address chan<- int, exited chan<- struct{}) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Severity, Message, Address string }
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		if line.Address != "" {
			port, _ := strconv.Atoi(line.Address[strings.LastIndexByte(line.Address, ':')+1:])
			address <- port
		}
		if line.Severity == "WARNING" || line.Severity == "ERROR" {
			c.say(line.Message)
		}
	}
	_ = cmd.Wait() // how it ended is in ProcessState
	close(exited)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked {
		c.died <- struct{}{}
	}
}

// Write takes what the bridge says on its standard error.
func (c *child) Write(p []byte) (int, error) {
	c.say(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (c *child) say(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = line
}

func (c *child) lastLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// kill ends the bridge as a crash does.
func (c *child) kill() { c.end(syscall.SIGKILL) }

func (c *child) end(sig os.Signal) {
	c.mu.Lock()
	c.asked = true
	c.mu.Unlock()
	if c.cmd.Process != nil {
		_ = c.cmd.Process.Signal(sig) // an error means that it has ended already
		<-c.exited
	}
}

func (c *child) restart(ctx context.Context) error {
	c.kill()
	return c.start(ctx)
}

// stop ends the bridge as the platform does, and fails unless it was a clean stop.
func (c *child) stop() error {
	c.end(syscall.SIGTERM)
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the bridge ended with exit code %d: %s", code, c.lastLine())
	}
	return nil
}

func (c *child) url() string { return "http://127.0.0.1:" + strconv.Itoa(c.port) + admin.PathPage }

// status asks the bridge for its state.
func (c *child) status(ctx context.Context) (admin.State, error) {
	var s admin.State
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.url(), "/")+admin.PathStatus, nil)
	if err != nil {
		return s, fmt.Errorf("asking for the status: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, fmt.Errorf("asking for the status: %w", err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return s, fmt.Errorf("reading the status: %w", err)
	}
	return s, nil
}
