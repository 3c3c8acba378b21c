//go:build unix

package emulator

import (
	"context"
	"fmt"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CreateTopics makes topics (full names), each with one subscription that sees
// everything published from now on. Those that exist stay as they are.
func (e *Emulator) CreateTopics(ctx context.Context, names ...string) error {
	for _, name := range names {
		_, err := e.publisher.CreateTopic(ctx, &pubsubpb.Topic{Name: name})
		if err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("creating topic %s: %w", name, err)
		}
		_, err = e.subscriber.CreateSubscription(ctx, &pubsubpb.Subscription{
			Name: subscription(name), Topic: name, AckDeadlineSeconds: 600,
		})
		if err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("creating the subscription of %s: %w", name, err)
		}
	}
	return nil
}

// subscription has the name of its topic.
func subscription(topic string) string {
	return strings.Replace(topic, "/topics/", "/subscriptions/", 1)
}

// Receive calls got for each message of a topic's subscription and
// acknowledges it, until ctx ends; then it returns nil. The emulator may
// deliver a message again: MessageId tells that from a second publish. It
// pulls, because the emulator streams ten times slower than it answers pulls.
func (e *Emulator) Receive(ctx context.Context, topic string, got func(*pubsubpb.PubsubMessage)) error {
	pull := &pubsubpb.PullRequest{Subscription: subscription(topic), MaxMessages: 1000}
	for ctx.Err() == nil {
		answer, err := e.subscriber.Pull(ctx, pull)
		if ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded {
			continue // nothing came, for a while or for ever
		}
		if err != nil {
			return fmt.Errorf("receiving from %s: %w", topic, err)
		}
		acks := &pubsubpb.AcknowledgeRequest{Subscription: pull.Subscription}
		for _, m := range answer.GetReceivedMessages() {
			got(m.GetMessage())
			acks.AckIds = append(acks.AckIds, m.GetAckId())
		}
		if len(acks.AckIds) == 0 {
			continue
		}
		if _, err := e.subscriber.Acknowledge(ctx, acks); err != nil && ctx.Err() == nil {
			return fmt.Errorf("acknowledging to %s: %w", topic, err)
		}
	}
	return nil
}
