package link

import (
	"net"
	"os"
	"sync"
	"time"
)

// conn is one connection of a Link.
type conn struct {
	net.Conn
	link   *Link
	once   sync.Once
	closed chan struct{} // closed by Close

	read, write deadline

	held []byte // read from below but not yet given; used by the reader alone
}

func newConn(raw net.Conn, l *Link) *conn {
	c := &conn{Conn: raw, link: l, closed: make(chan struct{})}
	c.read.done, c.write.done = make(chan struct{}), make(chan struct{})
	return c
}

// Read gives bytes only while the link is healthy, also bytes that were on
// their way when it broke.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.pass(&c.read); err != nil {
		return 0, err
	}
	if len(c.held) == 0 {
		n, err := c.Conn.Read(p)
		if err != nil {
			return n, err
		}
		c.held = append(c.held[:0], p[:n]...)
		if err := c.pass(&c.read); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.held)
	c.held = c.held[n:]
	return n, nil
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.pass(&c.write); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// pass waits while the link is a black hole.
func (c *conn) pass(d *deadline) error {
	for {
		hole, err := c.link.state()
		if err != nil {
			return err
		}
		if hole == nil {
			return nil
		}
		select {
		case <-hole:
		case <-c.closed:
			return net.ErrClosed
		case <-d.expired():
			return os.ErrDeadlineExceeded
		}
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.link.forget(c)
		c.read.set(time.Time{})
		c.write.set(time.Time{})
	})
	return c.Conn.Close()
}

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return c.Conn.SetWriteDeadline(t)
}

// deadline is a channel that closes when a settable time has come.
type deadline struct {
	mu    sync.Mutex // guards what follows
	timer *time.Timer
	done  chan struct{}
}

func (d *deadline) expired() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.done // it fired: its channel is spent
	}
	d.timer = nil
	select {
	case <-d.done:
		d.done = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	done := d.done
	d.timer = time.AfterFunc(time.Until(t), func() { close(done) })
}
