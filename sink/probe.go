package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// Limits of Probe.
const (
	publishPermission = "pubsub.topics.publish"
	// topicLimit bounds the questions about one topic, probeLimit all of them.
	topicLimit = 8 * time.Second
	probeLimit = 20 * time.Second
	// topicsAtOnce are asked about side by side.
	topicsAtOnce = 16
)

// Probed is what Pub/Sub said about the topics of all routes.
type Probed struct {
	Topics []ProbedTopic // destinations and dead-letter topics, each once, sorted
	// Ahead is by how much our clock is ahead of Google's, to about a second.
	// It means something when Clock is true.
	Ahead time.Duration
	Clock bool
}

// ProbedTopic is one topic. Unknown is what we may not ask or an emulator does
// not tell.
type ProbedTopic struct {
	Name       string // projects/P/topics/T
	Exists     fault.Answer
	MayPublish fault.Answer
	// Subscribed is whether anything keeps what is published.
	Subscribed fault.Answer
	// Unanswered is why Pub/Sub said nothing that counts, "" when it did.
	Unanswered string
}

// Probe asks Pub/Sub about the topics of o's routes. It publishes and changes
// nothing, and returns within 20 s and what finding credentials takes. It fails
// when there are none.
func Probe(ctx context.Context, o Options) (*Probed, error) {
	o.Connections = 1
	client, err := pubsub.NewTopicAdminClient(ctx, clientOptions(o)...)
	if err != nil {
		return nil, fmt.Errorf("building the Pub/Sub client: %w", err)
	}
	defer client.Close()
	// What cannot be had now is a finding, not something to wait for.
	client.CallOptions.GetTopic, client.CallOptions.ListTopicSubscriptions = nil, nil
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()

	found := &Probed{}
	for _, r := range o.Routes {
		for _, name := range []string{r.Destination, r.DeadLetter} {
			if name != "" && !slices.ContainsFunc(found.Topics, func(t ProbedTopic) bool { return t.Name == name }) {
				found.Topics = append(found.Topics, ProbedTopic{Name: name})
			}
		}
	}
	slices.SortFunc(found.Topics, func(a, b ProbedTopic) int { return strings.Compare(a.Name, b.Name) })
	var clock sync.Mutex // guards Ahead and Clock
	var asked errgroup.Group
	asked.SetLimit(topicsAtOnce)
	for i := range found.Topics {
		asked.Go(func() error {
			date := found.Topics[i].ask(ctx, client)
			if at, err := http.ParseTime(date); err == nil {
				clock.Lock()
				defer clock.Unlock()
				found.Ahead, found.Clock = time.Since(at), true
			}
			return nil
		})
	}
	return found, asked.Wait()
}

// ask finds out about one topic and returns the date that Pub/Sub gave its
// answer, "" for none. Who may not see a topic may still publish to it, so it
// asks about the permission first.
func (t *ProbedTopic) ask(ctx context.Context, client *pubsub.TopicAdminClient) (date string) {
	ctx, cancel := context.WithTimeout(ctx, topicLimit)
	defer cancel()
	var header metadata.MD
	granted, err := client.TestIamPermissions(ctx, &iampb.TestIamPermissionsRequest{
		Resource: t.Name, Permissions: []string{publishPermission},
	}, gax.WithGRPCOptions(grpc.Header(&header)))
	if values := header.Get("date"); len(values) > 0 {
		date = values[0]
	}
	switch {
	case err == nil && len(granted.GetPermissions()) > 0:
		t.Exists, t.MayPublish = fault.Yes, fault.Yes
	case err == nil:
		t.MayPublish = fault.No // also the answer about a topic that is missing
	case t.conclude(err):
		return date
	}
	if _, err = client.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: t.Name}); err == nil {
		t.Exists = fault.Yes
	} else if t.conclude(err) {
		return date
	}
	_, err = client.ListTopicSubscriptions(ctx, &pubsubpb.ListTopicSubscriptionsRequest{Topic: t.Name, PageSize: 1}).Next()
	switch {
	case err == nil:
		t.Subscribed = fault.Yes
	case errors.Is(err, iterator.Done):
		t.Subscribed = fault.No
	}
	return date
}

// conclude draws the conclusion from an error and reports whether it ends the
// questions. That we may not ask, or that an emulator has no such method, says
// nothing.
func (t *ProbedTopic) conclude(err error) (over bool) {
	switch codeOf(err) {
	case codes.NotFound:
		t.Exists, t.MayPublish = fault.No, fault.Unknown
		return true
	case codes.PermissionDenied, codes.Unimplemented:
		return false
	default:
		t.Unanswered = safeText(err)
		return true
	}
}
