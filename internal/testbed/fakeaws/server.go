package fakeaws

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

// Subject is the numeric id of the service account, as which tokens are signed.
const Subject = "104857600000000000001"

// Options of a Server.
type Options struct {
	Region   string
	Role     string // ARN of the one role there is
	Audience string // that its trust policy pins
	// SessionName is the only one accepted; "" accepts any legal one.
	SessionName string
	// Life is that of credentials, an hour when 0; TokenLife that of ID tokens.
	Life, TokenLife time.Duration
}

// Server is both ends. Use New. Safe for concurrent use.
type Server struct {
	options Options
	key     []byte // signs ID tokens
	http    *http.Server
	address chan string // written once by Serve; whoever reads puts it back

	mu       sync.Mutex                    // guards what follows
	issued   map[string]fakekafka.Identity // by access key
	down     bool
	distrust bool
	deny     bool
	tokens   []string
	sessions []string
}

// New returns a server that listens nowhere yet.
func New(o Options) *Server {
	if o.Life == 0 {
		o.Life = time.Hour
	}
	if o.TokenLife == 0 {
		o.TokenLife = time.Hour
	}
	s := &Server{options: o, key: random(32), address: make(chan string, 1), issued: map[string]fakekafka.Identity{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/computeMetadata/v1/instance/service-accounts/default/identity", s.identity)
	mux.HandleFunc("POST /{$}", s.assume)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return s
}

// Start serves on a free loopback port and returns host:port.
func (s *Server) Start() (string, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("opening a port: %w", err)
	}
	go s.Serve(l) //nolint:errcheck // it ends with Close, which says what there is to say
	return l.Addr().String(), nil
}

// Serve serves one listener until Close.
func (s *Server) Serve(l net.Listener) error {
	s.address <- l.Addr().String()
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends every connection.
func (s *Server) Close() { s.http.Close() }

// Client returns an HTTP client that reaches the server whatever the URL says,
// https included. dial replaces TCP when it is not nil.
func (s *Server) Client(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	here := func(ctx context.Context, network, _ string) (net.Conn, error) {
		select {
		case address := <-s.address:
			s.address <- address
			return dial(ctx, network, address)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &http.Client{Transport: &http.Transport{DialContext: here, DialTLSContext: here}, Timeout: 10 * time.Second}
}

// Down makes everything answer 503, or work again.
func (s *Server) Down(down bool) { s.set(func() { s.down = down }) }

// Distrust takes the service account out of the role's trust policy, or puts it
// back: STS refuses it, while credentials that it gave before stay valid.
func (s *Server) Distrust(distrust bool) { s.set(func() { s.distrust = distrust }) }

// Deny takes kafka-cluster:Connect from the role, or gives it back.
func (s *Server) Deny(deny bool) { s.set(func() { s.deny = deny }) }

func (s *Server) set(f func()) { s.mu.Lock(); defer s.mu.Unlock(); f() }

// Tokens returns how many ID tokens were signed.
func (s *Server) Tokens() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.tokens) }

// Sessions returns the session names for which credentials were given.
func (s *Server) Sessions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.sessions...)
}

// Secrets returns everything that must never be printed.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := append([]string(nil), s.tokens...)
	for _, i := range s.issued {
		out = append(out, i.SecretKey, i.SessionToken)
	}
	return out
}

// Identity is for fakekafka.SASL.
func (s *Server) Identity(accessKey string) (fakekafka.Identity, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.issued[accessKey]
	i.Denied = s.deny
	return i, ok
}

// Issue gives credentials directly, as to a user with a key.
func (s *Server) Issue(principal string, life time.Duration) (accessKey string, who fakekafka.Identity) {
	accessKey = "ASIA" + strings.ToUpper(hex.EncodeToString(random(8)))
	who = fakekafka.Identity{
		SecretKey: "canary-secret/" + hex.EncodeToString(random(16)), SessionToken: "canary+token/" + hex.EncodeToString(random(32)) + "==",
		Principal: principal, Expires: time.Now().Add(life).Truncate(time.Second),
	}
	s.set(func() { s.issued[accessKey] = who })
	return accessKey, who
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}
