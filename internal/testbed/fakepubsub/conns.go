package fakepubsub

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// serverCreds makes a call's connection known to its handler, so that a fault
// can cut it.
type serverCreds struct {
	credentials.TransportCredentials
}

func newServerCreds(c *tls.Config) serverCreds {
	if c == nil {
		return serverCreds{insecure.NewCredentials()}
	}
	return serverCreds{credentials.NewTLS(c)}
}

// authInfo carries the connection beside the real information.
type authInfo struct {
	credentials.AuthInfo
	conn net.Conn
}

func (c serverCreds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	return conn, authInfo{info, raw}, err
}

func (c serverCreds) Clone() credentials.TransportCredentials {
	return serverCreds{c.TransportCredentials.Clone()}
}

// cut closes the connection of the call.
func cut(ctx context.Context) {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.AuthInfo.(authInfo); ok {
			_ = a.conn.Close()
		}
	}
}

// feed is the listener of one generation of the gRPC server: it hands out the
// connections that the one real listener accepted, and can close alone.
type feed struct {
	conns chan net.Conn // written by the accept loop, read by one gRPC server
	done  chan struct{} // closed by Close
	once  sync.Once
	addr  net.Addr
}

func newFeed(addr net.Addr) *feed {
	return &feed{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

func (f *feed) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

func (f *feed) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}

func (f *feed) Addr() net.Addr { return f.addr }
