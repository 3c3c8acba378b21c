package sink

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// perConn is a stats handler of a server: RPCs by connection.
type perConn struct {
	mu   sync.Mutex // guards rpcs
	rpcs map[string]int
}

type connKey struct{}

func (p *perConn) TagConn(ctx context.Context, i *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connKey{}, i.RemoteAddr.String())
}
func (*perConn) HandleConn(context.Context, stats.ConnStats) {}
func (p *perConn) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rpcs[ctx.Value(connKey{}).(string)]++
	return ctx
}
func (*perConn) HandleRPC(context.Context, stats.RPCStats) {}

// Requests go over all connections in turn.
func TestConnections(t *testing.T) {
	for _, tt := range []struct{ connections, want int }{{0, defaultConnections}, {1, 1}, {3, 3}} {
		count := &perConn{rpcs: map[string]int{}}
		server := fakepubsub.New(fakepubsub.Options{Server: []grpc.ServerOption{grpc.StatsHandler(count)}})
		address, err := server.Start()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.CreateTopics(destination); err != nil {
			t.Fatal(err)
		}
		s, err := New(t.Context(), Options{Routes: []Route{{Topic: "orders", Destination: destination}}, Emulator: address, Connections: tt.connections})
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			if err := s.Publish(t.Context(), newBatch(false, 0, 2, nil)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		if len(count.rpcs) != tt.want {
			t.Errorf("%d connections, want %d", len(count.rpcs), tt.want)
		}
		for _, n := range count.rpcs {
			if n != 12/tt.want {
				t.Errorf("RPCs by connection: %v", count.rpcs)
			}
		}
	}
}

// New waits for nobody, not even for a dialer that never comes back.
func TestNewDoesNotWait(t *testing.T) {
	begun := time.Now()
	s, err := New(t.Context(), Options{
		Routes: []Route{{Topic: "orders", Destination: destination}}, Emulator: "127.0.0.1:1",
		Client: []option.ClientOption{option.WithGRPCDialOption(grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}))},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("New took %v", d)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestNewRefusesTwins(t *testing.T) {
	r := Route{Topic: "orders", Destination: destination}
	if _, err := New(t.Context(), Options{Routes: []Route{r, r}, Emulator: "127.0.0.1:1"}); err == nil {
		t.Error("two routes of one topic are accepted")
	}
}
