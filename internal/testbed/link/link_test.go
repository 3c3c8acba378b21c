package link_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/link"
)

// echo is a dialer to a server that sends back what it gets.
func echo(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		b := make([]byte, 64)
		for {
			n, err := theirs.Read(b)
			if err != nil {
				return
			}
			if _, err := theirs.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	return ours, nil
}

func dial(t *testing.T, l *link.Link) net.Conn {
	t.Helper()
	c, err := l.Dial(t.Context(), "tcp", "anywhere:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func roundTrip(c net.Conn) error {
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err
}

func TestBlackHoleHoldsAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := link.New(echo)
		c := dial(t, l)
		if err := roundTrip(c); err != nil {
			t.Fatal(err)
		}
		l.BlackHole(true)
		begin := time.Now()
		time.AfterFunc(time.Minute, func() { l.BlackHole(false) })
		if err := roundTrip(c); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d != time.Minute {
			t.Errorf("bytes moved after %v, want after the minute of the black hole", d)
		}
	})
}

func TestBlackHoleCatchesBytesOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := link.New(echo)
		c := dial(t, l)
		got := make(chan error, 1)
		go func() { _, err := io.ReadFull(c, make([]byte, 4)); got <- err }()
		synctest.Wait() // the reader sits below the link
		l.BlackHole(true)
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
}

func TestDeadlineInBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := link.New(echo)
		c := dial(t, l)
		l.BlackHole(true)
		for range 2 { // a deadline can be set again after it has passed
			begin := time.Now()
			if err := c.SetDeadline(begin.Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if err := roundTrip(c); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("got %v, want the deadline", err)
			}
			if d := time.Since(begin); d != 5*time.Second {
				t.Errorf("deadline after %v, want 5s", d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := l.Dial(ctx, "tcp", "anywhere:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dialing into a black hole: %v, want the context's end", err)
		}
	})
}

func TestCutAndKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := link.New(echo)
		c := dial(t, l)
		l.Cut()
		if err := roundTrip(c); err == nil {
			t.Error("a cut connection works")
		}
		if err := roundTrip(dial(t, l)); err != nil {
			t.Errorf("a new connection after the cut: %v", err)
		}
		if l.Dialed() != 2 || l.Open() != 1 {
			t.Errorf("dialed %d, open %d, want 2 and 1", l.Dialed(), l.Open())
		}
		l.Kill()
		if _, err := l.Dial(t.Context(), "tcp", "anywhere:1"); err == nil {
			t.Error("a killed link connects")
		}
	})
}
