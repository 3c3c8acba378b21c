package fakepubsub

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Limits of subscriptions. Source: reference of Pub/Sub's Subscription and
// DeadLetterPolicy, November 2026.
const (
	leastRetention, mostRetention = 10 * time.Minute, 31 * 24 * time.Hour
	leastAttempts, mostAttempts   = 5, 100
	mostRetryBackoff              = 10 * time.Minute
	mostFilter                    = 256 // bytes
)

var (
	subscriptionName = regexp.MustCompile(`^projects/[a-z0-9][a-z0-9.:-]*/subscriptions/[A-Za-z][A-Za-z0-9._~+%-]{2,254}$`)
	tableName        = regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]*\.[A-Za-z0-9_]+\.[A-Za-z0-9_]+$`)
)

// subscriber is the Subscriber service as far as it manages subscriptions.
type subscriber struct {
	pubsubpb.UnimplementedSubscriberServer
	*Server
}

// Subscriptions returns those that were created over the wire, by full name.
func (s *Server) Subscriptions() map[string]*pubsubpb.Subscription {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[string]*pubsubpb.Subscription, len(s.subscriptions))
	for name, sub := range s.subscriptions {
		out[name] = proto.CloneOf(sub)
	}
	return out
}

// CreateSubscription is the RPC.
func (s subscriber) CreateSubscription(_ context.Context, req *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if err := s.admin("CreateSubscription", req.GetName()); err != nil {
		return nil, err
	}
	if err := s.check(req); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscriptions[req.GetName()] != nil {
		return nil, status.Error(codes.AlreadyExists, "subscription exists")
	}
	if s.subscriptions == nil {
		s.subscriptions = map[string]*pubsubpb.Subscription{}
	}
	stored := proto.CloneOf(req)
	if b := stored.GetBigqueryConfig(); b != nil {
		b.State = pubsubpb.BigQueryConfig_ACTIVE
	}
	s.subscriptions[req.GetName()] = stored
	return proto.CloneOf(stored), nil
}

// GetSubscription is the RPC.
func (s subscriber) GetSubscription(_ context.Context, req *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	if err := s.admin("GetSubscription", req.GetSubscription()); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	stored := s.subscriptions[req.GetSubscription()]
	if stored == nil {
		return nil, status.Error(codes.NotFound, "subscription "+req.GetSubscription()+" not found")
	}
	return proto.CloneOf(stored), nil
}

// UpdateSubscription is the RPC: fields of the mask alone, and none of those
// that cannot be changed.
func (s subscriber) UpdateSubscription(_ context.Context, req *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription, error) {
	name := req.GetSubscription().GetName()
	if err := s.admin("UpdateSubscription", name); err != nil {
		return nil, err
	}
	if err := s.check(req.GetSubscription()); err != nil {
		return nil, err
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the update mask is empty")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.subscriptions[name]
	if stored == nil {
		return nil, status.Error(codes.NotFound, "subscription "+name+" not found")
	}
	changed, given := proto.CloneOf(stored), req.GetSubscription()
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "bigquery_config":
			changed.BigqueryConfig = proto.CloneOf(given.GetBigqueryConfig())
		case "message_retention_duration":
			changed.MessageRetentionDuration = given.GetMessageRetentionDuration()
		case "expiration_policy":
			changed.ExpirationPolicy = given.GetExpirationPolicy()
		case "dead_letter_policy":
			changed.DeadLetterPolicy = given.GetDeadLetterPolicy()
		case "retry_policy":
			changed.RetryPolicy = given.GetRetryPolicy()
		default:
			return nil, status.Error(codes.InvalidArgument, path+" cannot be updated")
		}
	}
	s.subscriptions[name] = changed
	return proto.CloneOf(changed), nil
}

// check says what Pub/Sub refuses.
func (s subscriber) check(sub *pubsubpb.Subscription) error {
	bad := func(format string, args ...any) error {
		return status.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
	}
	if !subscriptionName.MatchString(sub.GetName()) || regexp.MustCompile(`/subscriptions/goog`).MatchString(sub.GetName()) {
		return bad("subscription %q is not projects/{project}/subscriptions/{subscription}", sub.GetName())
	}
	if s.topic(sub.GetTopic()) == nil {
		return status.Error(codes.NotFound, "topic "+sub.GetTopic()+" not found")
	}
	if d := sub.GetMessageRetentionDuration(); d != nil && (d.AsDuration() < leastRetention || d.AsDuration() > mostRetention) {
		return bad("message_retention_duration out of bounds")
	}
	if len(sub.GetFilter()) > mostFilter {
		return bad("filter of %d bytes", len(sub.GetFilter()))
	}
	if p := sub.GetRetryPolicy(); p.GetMaximumBackoff().AsDuration() > mostRetryBackoff || p.GetMinimumBackoff().AsDuration() > p.GetMaximumBackoff().AsDuration() {
		return bad("retry_policy out of bounds")
	}
	if p := sub.GetDeadLetterPolicy(); p != nil {
		if s.topic(p.GetDeadLetterTopic()) == nil {
			return status.Error(codes.NotFound, "topic "+p.GetDeadLetterTopic()+" not found")
		}
		if p.GetMaxDeliveryAttempts() < leastAttempts || p.GetMaxDeliveryAttempts() > mostAttempts {
			return bad("max_delivery_attempts out of bounds")
		}
	}
	b := sub.GetBigqueryConfig()
	switch {
	case b == nil:
		return nil
	case !tableName.MatchString(b.GetTable()):
		return bad("table %q is not {projectId}.{datasetId}.{tableId}", b.GetTable())
	case b.GetUseTableSchema() && b.GetUseTopicSchema():
		return bad("use_topic_schema and use_table_schema are both set")
	default:
		return nil
	}
}
