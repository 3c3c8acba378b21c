package admin

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs Serve on a loopback port; stop ends it and returns what it returned.
func serve(t *testing.T, h http.Handler) (address string, stop func() error) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	return l.Addr().String(), func() error {
		cancel()
		return <-done
	}
}

// speak writes a raw request and returns the status line of the answer.
func speak(t *testing.T, address, request string) (status string, conn net.Conn) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprint(conn, request); err != nil {
		t.Fatal(err)
	}
	status, err = bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(status), conn
}

func TestServeLimitsHeaders(t *testing.T) {
	address, stop := serve(t, handler(healthy()))
	if got, _ := speak(t, address, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n"); got != "HTTP/1.1 200 OK" {
		t.Errorf("plain request: %s", got)
	}
	big := strings.Repeat("a", 64<<10)
	if got, _ := speak(t, address, "GET /live HTTP/1.1\r\nHost: x\r\nX-Big: "+big+"\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 431") {
		t.Errorf("64 KiB of headers: %s", got)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
}

// TestServeStopsWhileARequestHangs holds a request open for ever: the stop is
// bounded all the same.
func TestServeStopsWhileARequestHangs(t *testing.T) {
	entered := make(chan struct{})
	address, stop := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done() // ends only when the connection is cut
	}))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	begun := time.Now()
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	if took := time.Since(begun); took > 10*shutdownTimeout {
		t.Errorf("stopping took %v, limit %v", took, shutdownTimeout)
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := Serve(t.Context(), l, handler(healthy()), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error")
	}
}
