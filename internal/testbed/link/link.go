// Package link wraps a dialer so that a test can break what it dialed: cut the
// connections, refuse new ones, or swallow everything like a dead network.
//
//	l := link.New(cluster.Dial)
//	client := kgo.NewClient(kgo.Dialer(l.Dial), ...)
//	l.BlackHole(true)  // nothing moves, nothing fails
//	l.BlackHole(false) // what was under way arrives
//	l.Cut()            // all connections reset; new ones work
//	l.Kill()           // what kill -9 is to the world: reset, and refused for good
//
// Give each incarnation of a process, and each side it talks to, its own Link.
// A Link is safe for concurrent use and works in virtual time.
package link

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Dial is the shape of a dialer.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// errDead is what a killed link answers.
var errDead = errors.New("link is dead")

// Link is a breakable dialer. Use New.
type Link struct {
	dial Dial

	mu     sync.Mutex // guards what follows
	conns  map[*conn]struct{}
	dead   bool
	dialed int
	healed chan struct{} // nil: healthy; closed when the black hole ends
}

// New returns a healthy link over dial.
func New(dial Dial) *Link {
	return &Link{dial: dial, conns: map[*conn]struct{}{}}
}

// Dial connects, waits while the link is a black hole, or fails when it is dead.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		hole, err := l.state()
		if err != nil {
			return nil, err
		}
		if hole == nil {
			break
		}
		select {
		case <-hole:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	raw, err := l.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := newConn(raw, l)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, errors.Join(errDead, raw.Close())
	}
	l.conns[c] = struct{}{}
	l.dialed++
	return c, nil
}

func (l *Link) state() (hole chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, errDead
	}
	return l.healed, nil
}

// Cut closes all connections.
func (l *Link) Cut() { l.cut(false) }

// Kill closes all connections and refuses new ones for ever.
func (l *Link) Kill() { l.cut(true) }

func (l *Link) cut(dead bool) {
	l.mu.Lock()
	conns := l.conns
	l.conns = map[*conn]struct{}{}
	l.dead = l.dead || dead
	l.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
}

// BlackHole stops, or lets go on, all bytes in both directions and new
// connections. Deadlines and Close still work.
func (l *Link) BlackHole(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case on && l.healed == nil:
		l.healed = make(chan struct{})
	case !on && l.healed != nil:
		close(l.healed)
		l.healed = nil
	}
}

// Dialed counts the connections made so far.
func (l *Link) Dialed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialed
}

// Open counts the connections of now.
func (l *Link) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

func (l *Link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
