package fakekafka

import (
	"encoding/binary"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type watcher func(clientID string, req kmsg.Request) func(kmsg.Response)

// tap reads along on the brokers' connections.
type tap struct {
	name func(string, [16]byte) (string, [16]byte)

	mu       sync.RWMutex // guards watchers
	watchers map[int16][]watcher
}

func newTap(name func(string, [16]byte) (string, [16]byte)) *tap {
	return &tap{name: name, watchers: map[int16][]watcher{}}
}

func (t *tap) watch(key int16, w watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers[key] = append(t.watchers[key], w)
}

func (t *tap) of(key int16) []watcher {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.watchers[key]
}

// conn makes c a connection on which the tap reads along.
func (t *tap) conn(c net.Conn, closed func(net.Conn)) *tapConn {
	tc := &tapConn{Conn: c, tap: t, closed: closed, pending: map[uint32]pending{}}
	// size, key, version, correlation id / size, correlation id
	tc.in = frames{head: make([]byte, 12), keep: tc.wanted, done: tc.request}
	tc.out = frames{head: make([]byte, 8), keep: tc.awaited, done: tc.response}
	return tc
}

// pending is a request whose answer somebody waits for.
type pending struct {
	resp kmsg.Response
	then []func(kmsg.Response)
}

// tapConn is one connection on the broker's side. kfake reads it from one
// goroutine at a time and writes whole frames from another.
type tapConn struct {
	net.Conn
	tap    *tap
	closed func(net.Conn) // told by Close
	in     frames         // used by the reader
	out    frames         // used by the writer

	mu      sync.Mutex // guards pending
	pending map[uint32]pending
}

func (c *tapConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.feed(p[:n])
	return n, err
}

// Write tells observers first, so that they know before the client does.
func (c *tapConn) Write(p []byte) (int, error) {
	c.out.feed(p)
	return c.Conn.Write(p)
}

func (c *tapConn) Close() error {
	c.closed(c)
	return c.Conn.Close()
}

func (c *tapConn) wanted(head []byte) bool {
	return len(c.tap.of(int16(binary.BigEndian.Uint16(head[4:])))) > 0
}

func (c *tapConn) request(head, body []byte) {
	key, version := int16(binary.BigEndian.Uint16(head[4:])), int16(binary.BigEndian.Uint16(head[6:]))
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	r := kbin.Reader{Src: body}
	clientID := r.NullableString()
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if req.ReadFrom(r.Src) != nil {
		return // the broker will refuse it, too
	}
	if clientID == nil {
		clientID = new(string)
	}
	var then []func(kmsg.Response)
	for _, w := range c.tap.of(key) {
		if f := w(*clientID, req); f != nil {
			then = append(then, f)
		}
	}
	if then == nil {
		return
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[binary.BigEndian.Uint32(head[8:])] = pending{resp, then}
}

func (c *tapConn) awaited(head []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.pending[binary.BigEndian.Uint32(head[4:])]
	return ok
}

func (c *tapConn) response(head, body []byte) {
	corr := binary.BigEndian.Uint32(head[4:])
	c.mu.Lock()
	p := c.pending[corr]
	delete(c.pending, corr)
	c.mu.Unlock()
	r := kbin.Reader{Src: body}
	if p.resp.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if p.resp.ReadFrom(r.Src) != nil {
		return
	}
	for _, f := range p.then {
		f(p.resp)
	}
}

// frames cuts a byte stream into Kafka frames of which only some are kept.
type frames struct {
	head []byte // the size and what else is always wanted
	keep func(head []byte) bool
	done func(head, body []byte) // called for kept frames

	have int // bytes of head
	left int // bytes of the body to come
	kept bool
	body []byte
}

func (f *frames) feed(b []byte) {
	for len(b) > 0 {
		if f.have < len(f.head) {
			n := copy(f.head[f.have:], b)
			f.have += n
			b = b[n:]
			if f.have < len(f.head) {
				return
			}
			f.left = int(binary.BigEndian.Uint32(f.head)) - (len(f.head) - 4)
			f.kept, f.body = f.keep(f.head), f.body[:0]
		}
		n := min(f.left, len(b))
		if f.kept {
			f.body = append(f.body, b[:n]...)
		}
		f.left -= n
		b = b[n:]
		if f.left <= 0 {
			if f.kept {
				f.done(f.head, f.body)
			}
			f.have = 0
		}
	}
}
