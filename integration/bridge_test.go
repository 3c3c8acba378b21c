//go:build integration && unix

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

// bridge is one instance of the binary under test.
type bridge struct {
	*process.Process
	t    testing.TB
	url  string
	name string
}

// start runs the binary with nothing in its environment but settings and what
// a process needs. It is killed at the end of the test, and its last lines are
// shown when the test failed.
func start(t testing.TB, name string, settings map[string]string) *bridge {
	t.Helper()
	path := built(t)
	ports, err := process.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "TMPDIR": os.TempDir(),
		"GORACE": "halt_on_error=1", "PORT": fmt.Sprint(ports[0]),
	}
	maps.Copy(all, settings)
	var env []string
	for k, v := range all {
		env = append(env, k+"="+v)
	}
	dir := t.TempDir()
	p, err := process.Start(process.Spec{Name: name, Path: path, Args: []string{"run"}, Env: env, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	b := &bridge{Process: p, t: t, url: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), name: name}
	t.Cleanup(func() {
		b.Kill()
		if t.Failed() {
			t.Logf("last lines of bridge %s:\n%s", name, b.Tail(30))
		}
	})
	return b
}

// get asks one of the bridge's pages; no answer is status 0.
func (b *bridge) get(path string) (status int, body []byte) {
	client := http.Client{Timeout: 2 * time.Second}
	r, err := client.Get(b.url + path)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = r.Body.Close() }()
	body, _ = io.ReadAll(r.Body)
	return r.StatusCode, body
}

// awaitReady waits until the instance has joined and holds no route.
func (b *bridge) awaitReady() {
	b.t.Helper()
	b.await("/ready", http.StatusOK)
}

// await waits until a page answers with a status.
func (b *bridge) await(path string, want int) {
	b.t.Helper()
	eventually(b.t, time.Minute, fmt.Sprintf("bridge %s answers %d at %s", b.name, want, path), func() bool {
		if !b.Running() {
			b.t.Fatalf("bridge %s ended with exit code %d", b.name, b.ExitCode())
		}
		got, _ := b.get(path)
		return got == want
	})
}

// routeStatus is what the tests read of a route in /status.json.
type routeStatus struct {
	Topic        string `json:"topic"`
	State        string `json:"state"`
	Reason       string `json:"reason"`
	LastError    string `json:"last_error"`
	Partitions   int    `json:"partitions"`
	Acknowledged int64  `json:"acknowledged"`
	Parked       int64  `json:"parked"`
}

func (b *bridge) routes() map[string]routeStatus {
	var s struct {
		Routes []routeStatus `json:"routes"`
	}
	if _, body := b.get("/status.json"); json.Unmarshal(body, &s) != nil {
		return nil
	}
	byTopic := make(map[string]routeStatus, len(s.Routes))
	for _, r := range s.Routes {
		byTopic[r.Topic] = r
	}
	return byTopic
}

// terminate sends SIGTERM and returns how long the end took, at most 15 s.
func (b *bridge) terminate() time.Duration {
	b.t.Helper()
	began := time.Now()
	if err := b.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	select {
	case <-b.Done():
	case <-time.After(15 * time.Second):
		b.t.Errorf("bridge %s still runs 15 s after SIGTERM", b.name)
		b.Kill()
	}
	return since(began)
}
