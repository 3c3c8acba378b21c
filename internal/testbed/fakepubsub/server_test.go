package fakepubsub_test

import (
	"context"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const orders = "projects/p/topics/orders"

// bed is a started server with one topic and a client of it.
type bed struct {
	*fakepubsub.Server
	kept *fakepubsub.Messages
	keys *fakepubsub.Keys
	conn *grpc.ClientConn
}

func newBed(t *testing.T) *bed {
	t.Helper()
	kept, keys := &fakepubsub.Messages{}, &fakepubsub.Keys{}
	b := serve(t, fakepubsub.New(fakepubsub.Options{Stores: []fakepubsub.Store{kept, keys}}))
	b.kept, b.keys = kept, keys
	return b
}

// serve starts s with one topic and connects to it.
func serve(t *testing.T, s *fakepubsub.Server, opts ...grpc.DialOption) *bed {
	t.Helper()
	b := &bed{Server: s}
	if err := b.CreateTopics(orders); err != nil {
		t.Fatal(err)
	}
	addr, err := b.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	opts = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	b.conn, err = grpc.NewClient(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.conn.Close() })
	return b
}

// publish sends messages as the generated client does.
func (b *bed) publish(ctx context.Context, topic string, ms ...*pubsubpb.PubsubMessage) (*pubsubpb.PublishResponse, error) {
	return pubsubpb.NewPublisherClient(b.conn).Publish(ctx, &pubsubpb.PublishRequest{Topic: topic, Messages: ms})
}

// send sends the bytes of a request, which need not be a legal one.
func (b *bed) send(ctx context.Context, request []byte) error {
	var resp []byte
	return b.conn.Invoke(ctx, pubsubpb.Publisher_Publish_FullMethodName, request, &resp, grpc.ForceCodecV2(rawCodec{}))
}

type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (rawCodec) Name() string { return "proto" }

func keyed(key string) *pubsubpb.PubsubMessage {
	return &pubsubpb.PubsubMessage{Data: []byte("data"), Attributes: map[string]string{"idempotency_key": key}}
}

// sized returns a message that makes a request to orders of exactly n bytes.
func sized(n int) *pubsubpb.PubsubMessage {
	m := &pubsubpb.PubsubMessage{Data: make([]byte, n)}
	over := proto.Size(&pubsubpb.PublishRequest{Topic: orders, Messages: []*pubsubpb.PubsubMessage{m}}) - n
	m.Data = m.Data[:n-over]
	return m
}

func with(n, v string) []*pubsubpb.PubsubMessage {
	return []*pubsubpb.PubsubMessage{{Attributes: map[string]string{n: v}}}
}

func many(n int) []*pubsubpb.PubsubMessage {
	ms := make([]*pubsubpb.PubsubMessage, n)
	for i := range ms {
		ms[i] = keyed("k")
	}
	return ms
}

func attributes(n int) []*pubsubpb.PubsubMessage {
	m := &pubsubpb.PubsubMessage{Attributes: map[string]string{}}
	for i := range n {
		m.Attributes[strings.Repeat("a", i+1)] = ""
	}
	return []*pubsubpb.PubsubMessage{m}
}

func ordering(keys ...string) []*pubsubpb.PubsubMessage {
	var ms []*pubsubpb.PubsubMessage
	for _, k := range keys {
		ms = append(ms, &pubsubpb.PubsubMessage{Data: []byte("d"), OrderingKey: k})
	}
	return ms
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name string
		ms   []*pubsubpb.PubsubMessage
		want codes.Code
	}{
		{"request of 10,000,000 bytes", []*pubsubpb.PubsubMessage{sized(10_000_000)}, codes.OK},
		{"request of 10,000,001 bytes", []*pubsubpb.PubsubMessage{sized(10_000_001)}, codes.InvalidArgument},
		{"no message", nil, codes.InvalidArgument},
		{"1,000 messages", many(1000), codes.OK},
		{"1,001 messages", many(1001), codes.InvalidArgument},
		{"neither data nor attribute", []*pubsubpb.PubsubMessage{{OrderingKey: "o"}}, codes.InvalidArgument},
		{"attribute only", with("a", ""), codes.OK},
		{"100 attributes", attributes(100), codes.OK},
		{"101 attributes", attributes(101), codes.InvalidArgument},
		{"empty name", with("", "v"), codes.InvalidArgument},
		{"name of 256 bytes", with(strings.Repeat("é", 128), "v"), codes.OK},
		{"name of 257 bytes", with(strings.Repeat("n", 257), "v"), codes.InvalidArgument},
		{"value of 1,024 bytes", with("a", strings.Repeat("v", 1024)), codes.OK},
		{"value of 1,026 bytes in 513 characters", with("a", strings.Repeat("é", 513)), codes.InvalidArgument},
		{"reserved name", with("googly", "v"), codes.InvalidArgument},
		{"reserved name of Google's clients", with("googclient_traceparent", "v"), codes.OK},
		{"ordering key of 1,024 bytes", ordering(strings.Repeat("o", 1024)), codes.OK},
		{"ordering key of 1,025 bytes", ordering(strings.Repeat("o", 1025)), codes.InvalidArgument},
		{"one ordering key", ordering("a", "a"), codes.OK},
		{"two ordering keys", ordering("a", "b"), codes.InvalidArgument},
		{"some without ordering key", ordering("a", ""), codes.InvalidArgument},
		{"id set by the publisher", []*pubsubpb.PubsubMessage{{Data: []byte("d"), MessageId: "7"}}, codes.InvalidArgument},
	}
	b := newBed(t)
	var stored, violations int
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := b.publish(t.Context(), orders, tt.ms...)
			if status.Code(err) != tt.want {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err == nil && len(resp.GetMessageIds()) != len(tt.ms) {
				t.Errorf("%d ids for %d messages", len(resp.GetMessageIds()), len(tt.ms))
			}
			if err == nil {
				stored += len(tt.ms)
			} else {
				violations++
			}
			if n := len(b.kept.Of(orders)); n != stored {
				t.Errorf("%d messages stored, want %d", n, stored)
			}
			if n := len(b.Violations()); n != violations {
				t.Errorf("%d violations noted, want %d", n, violations)
			}
		})
	}
}

// message encodes an attribute-only message field, legal or not.
func message(names ...string) []byte {
	var m []byte
	for _, n := range names {
		a := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), n)
		a = protowire.AppendString(protowire.AppendTag(a, 2, protowire.BytesType), "v")
		m = protowire.AppendBytes(protowire.AppendTag(m, 2, protowire.BytesType), a)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), m)
}

func TestWireForm(t *testing.T) {
	head := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), orders)
	tests := []struct {
		name string
		body []byte
		want codes.Code
	}{
		{"as protobuf writes it", message("a", "b"), codes.OK},
		{"name that is not UTF-8", message("a\xff"), codes.InvalidArgument},
		{"name twice", message("a", "b", "a"), codes.InvalidArgument},
		{"cut short", message("a")[:5], codes.InvalidArgument},
		{"unknown field", protowire.AppendString(protowire.AppendTag(nil, 9, protowire.BytesType), "x"), codes.InvalidArgument},
		{"varint where bytes belong", protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1), codes.InvalidArgument},
	}
	b := newBed(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := b.send(t.Context(), append(append([]byte(nil), head...), tt.body...)); status.Code(err) != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestOneBadMessageRefusesAll(t *testing.T) {
	b := newBed(t)
	ms := []*pubsubpb.PubsubMessage{keyed("a"), {Attributes: map[string]string{"goog": ""}}, keyed("b")}
	if _, err := b.publish(t.Context(), orders, ms...); status.Code(err) != codes.InvalidArgument {
		t.Fatalf("got %v, want InvalidArgument", err)
	}
	if got := b.kept.Of(orders); len(got) != 0 {
		t.Errorf("stored %d messages of a refused request", len(got))
	}
}

func TestTopicNames(t *testing.T) {
	tests := []struct {
		name, topic string
		want        codes.Code
	}{
		{"exists", orders, codes.OK},
		{"does not exist", "projects/p/topics/absent", codes.NotFound},
		{"short name", "orders", codes.InvalidArgument},
		{"two letters", "projects/p/topics/ab", codes.InvalidArgument},
		{"digit first", "projects/p/topics/1abc", codes.InvalidArgument},
		{"reserved", "projects/p/topics/google", codes.InvalidArgument},
		{"256 characters", "projects/p/topics/" + strings.Repeat("t", 256), codes.InvalidArgument},
		{"none", "", codes.InvalidArgument},
	}
	b := newBed(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := b.publish(t.Context(), tt.topic, keyed("k")); status.Code(err) != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
