package sink

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// What goes out is the request that protobuf would write, and not a copy of it.
func TestMarshal(t *testing.T) {
	for _, n := range []int{1, 500} {
		b := newBatch(true, 0, n, nil)
		l := lease{idle: make(chan struct{}, 1)}
		c := &call{head: b.Head, part: b.Part(0, n), lease: &l}
		out, err := c.Marshal(nil)
		if err != nil {
			t.Fatal(err)
		}
		var req pubsubpb.PublishRequest
		if err := proto.Unmarshal(out.Materialize(), &req); err != nil {
			t.Fatal(err)
		}
		if req.GetTopic() != destination || len(req.GetMessages()) != n {
			t.Errorf("topic %s with %d messages", req.GetTopic(), len(req.GetMessages()))
		}
		shared := &out[1].ReadOnlyData()[0] == &b.Slab[0]
		if want := n > 1; shared != want || l.readers.Load() != map[bool]int32{true: 1}[want] {
			t.Errorf("%d messages: shared %v, %d readers", n, shared, l.readers.Load())
		}
		out.Free()
		if !l.ended() {
			t.Error("the lease goes on although everything is free")
		}
	}
}

func TestUnmarshal(t *testing.T) {
	answer := func(ids ...string) []byte {
		b, err := proto.Marshal(&pubsubpb.PublishResponse{MessageIds: ids})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	tests := []struct {
		name string
		data []byte
		want int // -1: an error
	}{
		{"empty", nil, 0},
		{"one", answer("1234567890"), 1},
		{"empty id", answer("", "", ""), 3},
		{"many", answer(make([]string, 1000)...), 1000},
		{"unknown fields", append([]byte{0x10, 0x96, 0x01, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4, 0x2a, 1, 'x'}, answer("a")...), 1},
		{"length beyond the end", []byte{0x0a, 5, 'a'}, -1},
		{"huge length", []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, -1},
		{"cut tag", []byte{0x8a}, -1},
		{"group", []byte{0x0b, 0x0c}, -1},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 7, 1 << 20} { // of the pieces that the answer came in
			var data mem.BufferSlice
			for piece := range slices.Chunk(tt.data, size) {
				data = append(data, mem.SliceBuffer(piece))
			}
			c := &call{}
			err := c.Unmarshal(data, nil)
			if got := c.ids; (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
				t.Errorf("%s in pieces of %d: %d, %v", tt.name, size, got, err)
			}
		}
	}
	data := mem.BufferSlice{mem.SliceBuffer(answer(make([]string, 1000)...))}
	c := &call{}
	if n := testing.AllocsPerRun(10, func() { _ = c.Unmarshal(data, nil) }); n > 0 {
		t.Errorf("counting 1,000 ids allocates %v times", n)
	}
}

// stuck is a connection that can be told to take no request for a while; what
// is smaller than a write buffer (pings, window updates) passes.
type stuck struct {
	net.Conn
	gate *gate
}

func (s *stuck) Write(b []byte) (int, error) {
	if len(b) >= 16<<10 {
		s.gate.pass()
	}
	return s.Conn.Write(b)
}

// gate stops who passes after it was shut. blocked is closed by the first who
// is stopped.
type gate struct {
	mu      sync.Mutex // guards open
	open    chan struct{}
	blocked chan struct{}
	once    sync.Once
}

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open != nil {
		g.once.Do(func() { close(g.blocked) })
		<-open
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
	g.open = nil
}

// The story of lease: an RPC is cancelled while the connection's writer is
// stuck in a write, and the slab is filled with other records at once. The
// batch must give the slab up then. That it stays unharmed otherwise is for the
// race detector and the server's check of what it got.
func TestSlabOutlivesCancelledRPC(t *testing.T) {
	var stored fakepubsub.Messages
	server := fakepubsub.New(fakepubsub.Options{Stores: []fakepubsub.Store{&stored}})
	address, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := server.CreateTopics(destination); err != nil {
		t.Fatal(err)
	}
	g := &gate{blocked: make(chan struct{})}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return &stuck{c, g}, err
	}
	s, err := New(t.Context(), Options{
		Routes: []Route{{Topic: "orders", Destination: destination}}, Emulator: address, Connections: 1,
		Client: []option.ClientOption{option.WithGRPCDialOption(grpc.WithContextDialer(dial))},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	publish := func(ctx context.Context) *[]byte {
		b := newBatch(false, 0, 900, nil)
		slab := b.Slab
		if err := s.Publish(ctx, b); err == nil {
			if b.Slab == nil {
				return nil // given up within the grace: rare, and safe
			}
		} else if b.Slab != nil {
			t.Error("a slab that the writer still reads was not given up")
		}
		return &slab
	}
	publish(t.Context()) // connected, windows known
	g.shut()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		publish(ctx)
	}()
	<-g.blocked
	cancel()
	<-ended
	g.lift()
	for range 20 { // and now slabs are reused, as the lane does
		if slab := publish(t.Context()); slab != nil {
			clear(*slab)
		}
	}
	if v := server.Violations(); len(v) != 0 {
		t.Errorf("the server got %v", v)
	}
	if got := len(stored.Of(destination)); got < 21*900 || got > 22*900 {
		t.Errorf("%d stored", got)
	}
}

// While all is well gRPC lets go of every slab before Publish returns.
func TestSlabComesBack(t *testing.T) {
	server := fakepubsub.New(fakepubsub.Options{})
	address, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := server.CreateTopics(destination); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), Options{Routes: []Route{{Topic: "orders", Destination: destination}}, Emulator: address})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	lost := 0
	for range 8 {
		wg.Go(func() {
			for range 10 {
				b := newBatch(false, 0, 500, nil)
				if err := s.Publish(t.Context(), b); err != nil {
					t.Error(err)
				}
				if b.Slab == nil {
					mu.Lock()
					lost++
					mu.Unlock()
				}
				clear(b.Slab)
			}
		})
	}
	wg.Wait()
	if lost > 4 { // of 80; a loaded machine may take longer than the grace
		t.Errorf("%d slabs did not come back", lost)
	}
	if v := server.Violations(); len(v) != 0 {
		t.Errorf("the server got %v", v)
	}
}

func TestLease(t *testing.T) {
	l := lease{idle: make(chan struct{}, 1)}
	l.readers.Store(2)
	if l.ended() {
		t.Error("ended with two readers")
	}
	go func() {
		l.Put(nil)
		l.Put(nil)
	}()
	for begun := time.Now(); !l.ended(); {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("does not end without readers")
		}
	}
}
