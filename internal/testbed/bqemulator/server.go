//go:build unix

// Package bqemulator runs a server of BigQuery's API that nobody here wrote,
// the Python package of the same name, for tests. It translates GoogleSQL for
// DuckDB: it proves that Google's client and our use of it work, and that most
// of our SQL runs; limits, permissions, pruning and billing are not its matter.
package bqemulator

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

// launcher starts the server without the geography extension of its database,
// which it would download, and without which it does not start.
//
//go:embed launch.py
var launcher []byte

// startLimit bounds the start, which takes some 4 s where Python has compiled
// the packages before, after their installation 15.
const startLimit = 2 * time.Minute

// Server is a running server. Safe for concurrent use.
type Server struct {
	address string
	dir     string
	process *process.Process // nil before it started
}

// Start launches a server with nothing in it on a free loopback port and waits
// until it answers. The first start on a machine installs it (some 150 MB from
// the Python package index) into the user's cache. It returns a
// process.MissingError when Python or the packages cannot be had.
func Start(ctx context.Context) (*Server, error) {
	python, err := install(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mskbridge-bqemulator-")
	if err != nil {
		return nil, fmt.Errorf("making the folder of bqemulator: %w", err)
	}
	s := &Server{dir: dir}
	if err := s.launch(ctx, python); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) launch(ctx context.Context, python string) error {
	script := filepath.Join(s.dir, "launch.py")
	if err := os.WriteFile(script, launcher, 0o600); err != nil {
		return fmt.Errorf("writing the launcher of bqemulator: %w", err)
	}
	p, err := process.Start(process.Spec{
		Name: "bqemulator", Path: python, Dir: s.dir,
		Args: []string{script, "start", "--ephemeral", "--rest-port=0", "--grpc-port=0", "--log-format=json", "--log-level=info"},
		Env:  append(os.Environ(), "BQEMU_ENABLE_FORMAT_EXTENSIONS=false", "OTEL_SDK_DISABLED=true", "PYTHONUNBUFFERED=1"),
	})
	if err != nil {
		return err
	}
	s.process = p
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.await(ctx); err != nil {
		return fmt.Errorf("starting bqemulator: %w\n%s", err, p.Tail(20))
	}
	return nil
}

// await reads the port from the log of our own process, so that no stranger can
// be taken for it, then waits until the port answers.
func (s *Server) await(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.address == "" {
			s.address = listening(s.process.Tail(50))
		}
		if s.address != "" && answers(ctx, s.address) {
			return nil
		}
		select {
		case <-s.process.Done():
			return fmt.Errorf("it ended with exit code %d", s.process.ExitCode())
		case <-ctx.Done():
			return fmt.Errorf("waiting for its port: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// listening returns the address that a line of the log names, or "".
func listening(log string) string {
	for line := range strings.Lines(log) {
		var said struct {
			Event, Host string
			Port        int
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Event == "rest.listen" {
			return net.JoinHostPort(said.Host, strconv.Itoa(said.Port))
		}
	}
	return ""
}

func answers(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/bigquery/v2/projects/none/datasets", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}

// Address returns host:port, the value for BIGQUERY_EMULATOR_HOST.
func (s *Server) Address() string { return s.address }

// Log returns the last lines that the server wrote.
func (s *Server) Log(lines int) string { return s.process.Tail(lines) }

// Close ends the server.
func (s *Server) Close() error {
	if s.process != nil {
		s.process.Kill()
	}
	return os.RemoveAll(s.dir)
}
