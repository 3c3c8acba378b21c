//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	start := func(t *testing.T, script string) *Process {
		t.Helper()
		p, err := Start(Spec{Name: "child", Path: "/bin/sh", Args: []string{"-c", script}, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	tests := []struct {
		name, script string
		end          func(*Process)
		wantCode     int
		wantLog      string
	}{
		{"ends by itself", "echo one; echo two >&2; exit 3", func(*Process) {}, 3, "one\ntwo"},
		{"hears SIGTERM", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done", func(p *Process) {
			awaitOutput(p)
			p.Stop(10 * time.Second)
		}, 7, "up"},
		{"is killed when deaf", "trap '' TERM; echo up; while :; do sleep 0.05; done", func(p *Process) {
			awaitOutput(p)
			p.Stop(50 * time.Millisecond)
		}, -1, "up"},
		{"is stopped while frozen", "trap 'exit 8' TERM; echo up; while :; do sleep 0.05; done", func(p *Process) {
			awaitOutput(p)
			_ = p.Signal(syscall.SIGSTOP)
			p.Stop(10 * time.Second)
		}, 8, "up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, tt.script)
			tt.end(p)
			if got := p.ExitCode(); got != tt.wantCode {
				t.Errorf("exit code %d, want %d", got, tt.wantCode)
			}
			if got := p.Tail(10); got != tt.wantLog {
				t.Errorf("log %q, want %q", got, tt.wantLog)
			}
			if p.Running() || p.Signal(syscall.SIGTERM) == nil {
				t.Error("an ended process takes signals")
			}
		})
	}
}

func awaitOutput(p *Process) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if b, err := os.ReadFile(p.Log()); err != nil || len(b) > 0 || !p.Running() {
			return
		}
	}
}

func TestPortsDiffer(t *testing.T) {
	ports, err := Ports(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] {
			t.Fatalf("port %d given twice", p)
		}
		seen[p] = true
	}
}

func TestFindNamesWhatIsMissing(t *testing.T) {
	_, err := Find("some part", "no-such-program", "install it")
	if _, ok := errors.AsType[*MissingError](err); !ok {
		t.Fatalf("got %v, want a MissingError", err)
	}
	if want := "some part: no-such-program not found: install it"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
}

// TestPeakIsTheChildsOwn starts a small child from a large parent.
func TestPeakIsTheChildsOwn(t *testing.T) {
	const large = 300 << 20
	ballast := make([]byte, large)
	for i := 0; i < large; i += 4096 {
		ballast[i] = 1
	}
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{Name: "small", Path: path, Args: []string{"60"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if _, peak, err := p.Memory(); runtime.GOOS == "linux" && (err != nil || peak <= 0 || peak > large/2) {
		t.Errorf("peak of sleep is %d bytes, %v", peak, err)
	}
	runtime.KeepAlive(ballast)
}
