package fakepubsub

import (
	"context"
	"net/http"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// Forbid takes from everybody the permission to publish to a topic. Allow gives
// it back.
func (s *Server) Forbid(name string) {
	s.forbid(name, true, Always(Fault{Code: codes.PermissionDenied, Text: "User not authorized to perform this action."}))
}

// Allow undoes Forbid, and any script of the topic.
func (s *Server) Allow(name string) { s.forbid(name, false, nil) }

func (s *Server) forbid(name string, forbidden bool, script Script) {
	if t := s.topic(name); t != nil {
		t.forbidden.Store(forbidden)
		s.Script(name, script)
	}
}

// Attach gives a topic a subscription, which only ListTopicSubscriptions shows.
func (s *Server) Attach(topic, subscription string) {
	if t := s.topic(topic); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.subscriptions = append(t.subscriptions, subscription)
	}
}

// ListTopicSubscriptions is the RPC; it answers in one page.
func (s *Server) ListTopicSubscriptions(_ context.Context, req *pubsubpb.ListTopicSubscriptionsRequest) (*pubsubpb.ListTopicSubscriptionsResponse, error) {
	if err := s.admin("ListTopicSubscriptions", req.GetTopic()); err != nil {
		return nil, err
	}
	resp := &pubsubpb.ListTopicSubscriptionsResponse{}
	if t := s.topic(req.GetTopic()); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		resp.Subscriptions = append(resp.Subscriptions, t.subscriptions...)
	}
	return resp, nil
}

// policies is the IAM service beside Pub/Sub's own.
type policies struct {
	iampb.UnimplementedIAMPolicyServer
	*Server
}

// TestIamPermissions is the RPC. As with the real service, a topic that does
// not exist gives no permission and is no error.
func (p policies) TestIamPermissions(ctx context.Context, req *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	if p.opts.Clock != nil {
		date := p.opts.Clock().UTC().Format(http.TimeFormat)
		if err := grpc.SetHeader(ctx, metadata.Pairs("date", date)); err != nil {
			return nil, err
		}
	}
	if err := p.admin("TestIamPermissions", req.GetResource()); err != nil {
		return nil, err
	}
	resp := &iampb.TestIamPermissionsResponse{}
	t := p.topic(req.GetResource())
	for _, name := range req.GetPermissions() {
		if t != nil && !(t.forbidden.Load() && strings.HasSuffix(name, ".publish")) {
			resp.Permissions = append(resp.Permissions, name)
		}
	}
	return resp, nil
}
