//go:build unix

// Package process starts the real parts of the tests as child processes: each
// in a process group of its own, with its output in a file, ended by pid and
// gone when the test binary dies, however it dies.
package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Spec says what to start.
type Spec struct {
	Name string   // for errors and the log's file name
	Path string   // executable
	Args []string // without the executable
	Env  []string // whole environment; nil means that of this process
	Dir  string   // where the log goes and the process runs; must exist
}

// Process is a running or ended child. Safe for concurrent use.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  string

	started time.Time
	// done is closed by the goroutine that waits for the child, after ended
	// was written; everybody else only reads.
	done  chan struct{}
	ended time.Time
}

// Start starts the child. It appends to the log of an earlier child of the
// same name, so a restarted one has its whole story in one file.
func Start(s Spec) (*Process, error) {
	logPath := filepath.Join(s.Dir, s.Name+".log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening log of %s: %w", s.Name, err)
	}
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Env, cmd.Dir = s.Env, s.Dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	p := &Process{name: s.Name, cmd: cmd, log: logPath, done: make(chan struct{})}
	started := make(chan error)
	go p.run(out, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Name, err)
	}
	return p, nil
}

// run keeps the thread that started the child until the child ends: Linux
// sends the parent-death signal when that thread ends, not the process.
func (p *Process) run(out *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.started = time.Now()
	err := p.cmd.Start()
	_ = out.Close() // the child has its own copy
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // the exit code is read from ProcessState
	p.ended = time.Now()
	close(p.done)
}

// Pid returns the process id, which is also that of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitCode waits for the end and returns the exit code, -1 after a signal.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Lived waits for the end and returns how long the process lived.
func (p *Process) Lived() time.Duration {
	<-p.done
	return p.ended.Sub(p.started)
}

// CPU waits for the end and returns user plus system time.
func (p *Process) CPU() time.Duration {
	<-p.done
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Signal sends sig to the process alone. After the end it is an error.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Running() {
		return fmt.Errorf("signalling %s: it has ended", p.name)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signalling %s: %w", p.name, err)
	}
	return nil
}

// Kill ends the whole group at once and waits for it. After the end it does nothing.
func (p *Process) Kill() {
	if p.Running() {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	}
	<-p.done
}

// Stop asks for the end with SIGTERM, waits at most grace, then kills.
func (p *Process) Stop(grace time.Duration) {
	if p.Running() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // a frozen process hears nothing else
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-p.done:
	case <-time.After(grace):
	}
	p.Kill()
}

// Log returns the path of the file with the output.
func (p *Process) Log() string { return p.log }

// Tail returns the last lines of the output, for error messages.
func (p *Process) Tail(lines int) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimRight(b, "\n")
	at := len(b)
	for range lines {
		if at = bytes.LastIndexByte(b[:at], '\n'); at < 0 {
			return string(b)
		}
	}
	return string(b[at+1:])
}
