//go:build integration && unix

package emulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

func TestPublishAndReceive(t *testing.T) {
	began := time.Now()
	e, err := Start(t.Context())
	if _, ok := errors.AsType[*process.MissingError](err); ok && os.Getenv("MSKBRIDGE_REQUIRE_PARTS") != "1" {
		t.Skipf("SKIPPED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	t.Logf("up after %v", time.Since(began).Round(time.Millisecond))

	const topic, requests, each = "projects/p/topics/orders", 50, 1000
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for range 2 { // the second time they exist
		if err := e.CreateTopics(ctx, topic); err != nil {
			t.Fatal(err)
		}
	}
	began = time.Now()
	for i := range requests {
		request := &pubsubpb.PublishRequest{Topic: topic}
		for j := range each {
			request.Messages = append(request.Messages, &pubsubpb.PubsubMessage{
				Data: []byte(strings.Repeat("x", 200)), Attributes: map[string]string{"idempotency_key": fmt.Sprint(i*each + j)},
			})
		}
		if _, err := e.publisher.Publish(ctx, request); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d messages published in %v", requests*each, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	keys := map[string]bool{}
	receiving, done := context.WithCancel(ctx)
	err = e.Receive(receiving, topic, func(m *pubsubpb.PubsubMessage) {
		if keys[m.GetAttributes()["idempotency_key"]] = true; len(keys) == requests*each {
			done()
		}
	})
	if err != nil || len(keys) != requests*each {
		t.Fatalf("got %d of %d messages, error %v", len(keys), requests*each, err)
	}
	t.Logf("and received in %v", time.Since(began).Round(time.Millisecond))
}
