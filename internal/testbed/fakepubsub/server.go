package fakepubsub

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxReceive is what gRPC lets in, above Pub/Sub's own limit so that the limit
// answers and not the transport.
const maxReceive = 64 << 20

// Options of a Server. The zero value is a plaintext server that stores nothing
// but counts.
type Options struct {
	// Stores are told of every stored message, in this order.
	Stores []Store
	// TLS, when set, is what the server speaks; nil is plaintext.
	TLS *tls.Config
	// Clock, when set, dates answers as Google's front ends do; an emulator's
	// have no date.
	Clock func() time.Time
	// Server are further options of the gRPC server.
	Server []grpc.ServerOption
}

// Violation is one request that broke a limit.
type Violation struct{ Topic, Why string }

// Server is the fake. Use New.
type Server struct {
	pubsubpb.UnimplementedPublisherServer
	opts    Options
	script  atomic.Pointer[Script]
	refuse  atomic.Pointer[func(method, resource string) codes.Code]
	lastID  atomic.Uint64
	missing atomic.Int64

	mu         sync.RWMutex // guards what follows
	topics     map[string]*topic
	violations []Violation
	// subscriptions are those created over the wire, by full name.
	subscriptions map[string]*pubsubpb.Subscription
	listener      net.Listener
	current       *generation
	old           []*generation // told to go, perhaps still going
	closed        bool

	running sync.WaitGroup
}

// generation is one gRPC server; GoAway replaces it without losing the address.
type generation struct {
	feed *feed
	grpc *grpc.Server
}

// New returns a server without topics. It listens nowhere yet.
func New(o Options) *Server {
	return &Server{opts: o, topics: map[string]*topic{}}
}

// Start listens on a free loopback port, serves in the background and returns
// the address.
func (s *Server) Start() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listening: %w", err)
	}
	s.running.Go(func() { _ = s.Serve(l) })
	return l.Addr().String(), nil
}

// Serve serves on l until Close, and closes l. It may be called once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed || s.listener != nil {
		s.mu.Unlock()
		return errors.Join(errors.New("serving twice or after Close"), l.Close())
	}
	s.listener = l
	s.startLocked()
	s.mu.Unlock()
	for {
		c, err := l.Accept()
		if err != nil {
			s.mu.RLock()
			defer s.mu.RUnlock()
			if s.closed {
				return nil
			}
			return fmt.Errorf("accepting: %w", err)
		}
		s.hand(c)
	}
}

// hand gives c to the generation of now.
func (s *Server) hand(c net.Conn) {
	for {
		s.mu.RLock()
		g, closed := s.current, s.closed
		s.mu.RUnlock()
		if closed {
			_ = c.Close()
			return
		}
		select {
		case g.feed.conns <- c:
			return
		case <-g.feed.done: // GoAway came between: take the next generation
		}
	}
}

func (s *Server) startLocked() {
	opts := append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReceive), grpc.WaitForHandlers(true),
		grpc.ForceServerCodecV2(newCodec()), grpc.Creds(newServerCreds(s.opts.TLS)),
	}, s.opts.Server...)
	g := &generation{newFeed(s.listener.Addr()), grpc.NewServer(opts...)}
	g.grpc.RegisterService(serviceDesc(), s)
	iampb.RegisterIAMPolicyServer(g.grpc, policies{Server: s})
	pubsubpb.RegisterSubscriberServer(g.grpc, subscriber{Server: s})
	s.current = g
	s.running.Go(func() { _ = g.grpc.Serve(g.feed) })
}

// GoAway tells all connections to finish their calls and go, as the real
// service does now and then. New connections are served at once.
func (s *Server) GoAway() { s.replace((*grpc.Server).GracefulStop) }

// CutAll closes all connections in the middle of what they do. New connections
// are served at once.
func (s *Server) CutAll() { s.replace((*grpc.Server).Stop) }

func (s *Server) replace(stop func(*grpc.Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.current == nil {
		return
	}
	old := s.current
	s.old = append(s.old, old)
	s.startLocked()
	_ = old.feed.Close()
	s.running.Go(func() { stop(old.grpc) })
}

// Close cuts everything and waits until no goroutine of the server is left.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	l, all := s.listener, s.old
	if s.current != nil {
		all = append(all, s.current)
	}
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	for _, g := range all {
		_ = g.feed.Close()
		g.grpc.Stop() // ends a GracefulStop that waits for a hanging call
	}
	s.running.Wait()
}

// Script installs what happens to requests for a topic (full name), or, with
// "", for all topics without a script of their own. nil takes it away. Calls
// for a topic that does not exist are lost.
func (s *Server) Script(name string, script Script) {
	at := &s.script
	if name != "" {
		t := s.topic(name)
		if t == nil {
			return
		}
		at = &t.script
	}
	if script == nil {
		at.Store(nil)
		return
	}
	at.Store(&script)
}

// RefuseAdmin answers the RPCs other than Publish: f gets the method's name and
// the resource, and OK lets the call through. nil takes it away.
func (s *Server) RefuseAdmin(f func(method, resource string) codes.Code) {
	if f == nil {
		s.refuse.Store(nil)
		return
	}
	s.refuse.Store(&f)
}

// Missing counts publish requests for topics that do not exist.
func (s *Server) Missing() int { return int(s.missing.Load()) }

// Violations lists the requests that broke a limit, the first 100 of them.
func (s *Server) Violations() []Violation {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.violations)
}

func (s *Server) violation(topic string, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.violations) < 100 {
		s.violations = append(s.violations, Violation{topic, why.Error()})
	}
	return status.Error(codes.InvalidArgument, why.Error())
}
