package remote

import (
	"context"
	"fmt"
	"regexp"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// Subscriptions makes the subscriptions that write raw tables. Safe for
// concurrent use.
type Subscriptions struct {
	client *pubsub.SubscriptionAdminClient
}

// OpenSubscriptions finds credentials and dials nothing else. endpoint is
// host:port, "" for the global one; emulator is spoken to in plaintext without
// credentials.
func OpenSubscriptions(ctx context.Context, endpoint, emulator string) (*Subscriptions, error) {
	opts := []option.ClientOption{option.WithTelemetryDisabled()}
	switch {
	case emulator != "":
		opts = append(opts, option.WithEndpoint(emulator), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	case endpoint != "":
		opts = append(opts, option.WithEndpoint(endpoint))
	}
	client, err := pubsub.NewSubscriptionAdminClient(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("opening Pub/Sub: %w", err)
	}
	return &Subscriptions{client}, nil
}

// Close releases what OpenSubscriptions took.
func (s *Subscriptions) Close() error { return s.client.Close() }

// Compare looks at a subscription.
func (s *Subscriptions) Compare(ctx context.Context, want Subscription) Finding {
	f, _, _ := s.look(ctx, want)
	return f
}

func (s *Subscriptions) look(ctx context.Context, want Subscription) (Finding, *pubsubpb.Subscription, change) {
	f := Finding{Object: want.ID(), Kind: "subscription", Status: Same}
	have, err := s.client.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: want.Name()})
	if status.Code(err) == codes.NotFound {
		f.Status = Absent
		return f, nil, change{}
	}
	if err != nil {
		f.Status, f.Problem = Unclear, refusal("looking at subscription "+want.Name(), want, err).Error()
		return f, nil, change{}
	}
	c := compareSubscription(want, have)
	f.Differences, f.Notes, f.Replaceable = c.differences, c.notes, !c.refused
	if len(c.differences) > 0 {
		f.Status = Different
	}
	return f, have, c
}

// Apply makes a subscription, or changes what may be changed of one that
// exists. Where something else differs it changes nothing and returns an error.
func (s *Subscriptions) Apply(ctx context.Context, want Subscription) error {
	f, have, c := s.look(ctx, want)
	switch {
	case f.Status == Same:
		return nil
	case f.Status == Absent:
		if _, err := s.client.CreateSubscription(ctx, want.message()); err != nil {
			return refusal("creating subscription "+want.Name(), want, err)
		}
		return nil
	case f.Status == Unclear:
		return &Error{text: f.Problem}
	case c.refused:
		return fmt.Errorf("subscription %s: %v", want.Name(), c.differences[0])
	}
	_, err := s.client.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: updated(want, have, c.fields),
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: c.fields},
	})
	if err != nil {
		return refusal("updating subscription "+want.Name(), want, err)
	}
	return nil
}

// agent is the account that writes for a subscription. Pub/Sub names it, with
// one code or another, where it may not.
var agent = regexp.MustCompile(`service-\d+@gcp-sa-pubsub\.iam\.gserviceaccount\.com`)

// refusal names an error of Pub/Sub for people. A topic that is missing is
// named in the text of the answer.
func refusal(doing string, want Subscription, err error) error {
	st, _ := status.FromError(err)
	p := &Error{text: fmt.Sprintf("%s: %s: %s", doing, st.Code(), st.Message()), err: err}
	if who := agent.FindString(st.Message()); who != "" {
		p.Kind = Denied
		p.Advice = "grant roles/bigquery.dataEditor on the dataset of " + want.Table + " to " + who
		return p
	}
	switch st.Code() { //nolint:exhaustive // the rest speaks for itself
	case codes.PermissionDenied:
		p.Kind = Denied
		p.Advice = "grant roles/pubsub.editor on project " + want.Project
	case codes.NotFound:
		p.Kind = Missing
		p.Advice = "create the topics first: gcloud pubsub topics create " + want.Topic
		if want.DeadLetter != "" {
			p.Advice += " " + want.DeadLetter
		}
	}
	return p
}
