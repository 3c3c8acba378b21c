package fakepubsub_test

import (
	"fmt"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// BenchmarkPublish is one request of 1,000 messages of 300 bytes and eight
// attributes, client included.
func BenchmarkPublish(b *testing.B) {
	req := &pubsubpb.PublishRequest{Topic: orders}
	for i := range 1000 {
		m := &pubsubpb.PubsubMessage{Data: make([]byte, 300), Attributes: map[string]string{
			"idempotency_key": fmt.Sprintf("v1/msk/orders/AQIDAAAAAAAAAAAAAAAAAA/2/5/%d", i),
		}}
		for a := range 7 {
			m.Attributes[fmt.Sprintf("kafka_attribute_%d", a)] = "some value"
		}
		req.Messages = append(req.Messages, m)
	}
	wire, err := proto.Marshal(req)
	if err != nil {
		b.Fatal(err)
	}
	for name, stores := range map[string][]fakepubsub.Store{"count": nil, "keys": {&fakepubsub.Keys{}}} {
		b.Run(name, func(b *testing.B) {
			s := fakepubsub.New(fakepubsub.Options{Stores: stores})
			if err := s.CreateTopics(orders); err != nil {
				b.Fatal(err)
			}
			addr, err := s.Start()
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			c := bed{conn: conn}
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.send(b.Context(), wire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
