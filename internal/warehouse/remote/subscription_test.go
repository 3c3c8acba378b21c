package remote

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

const (
	ordersTopic = "projects/example-project/topics/orders"
	deadTopic   = "projects/example-project/topics/dead"
)

func ordersSubscription() Subscription {
	return Subscription{
		Project: "example-project", Topic: ordersTopic, Table: "data-project.kafka.orders_raw", KafkaTopic: "orders",
		TopicFilter: `attributes.kafka_topic = "orders"`, DeadLetter: deadTopic, RetentionDays: 7,
	}
}

func TestSubscriptionIDs(t *testing.T) {
	long := strings.Repeat("a", 249)
	topics := []string{"orders", "orders.v2", "orders_v2", "orders-v2", "1st", "_1st", ".1st", "google", "Goog", "mskbridge_____1st", "mskbridge______1st", long, long[:248] + "b", long[:246], "k"}
	seen := map[string]string{}
	for _, topic := range topics {
		id := Subscription{KafkaTopic: topic}.ID()
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s share %s", topic, other, id)
		}
		seen[id] = topic
		if len(id) > longestID || len(id) < 3 || !plainID.MatchString(id) || strings.HasPrefix(strings.ToLower(id), "goog") {
			t.Errorf("%s: %s is no id", topic, id)
		}
	}
	if id := ordersSubscription().ID(); id != "orders-bigquery" {
		t.Errorf("id %s", id)
	}
}

func TestSubscriptionCommand(t *testing.T) {
	s := ordersSubscription()
	s.Shared, s.TableSchema = true, true
	const want = "gcloud pubsub subscriptions create orders-bigquery --project=example-project --topic=projects/example-project/topics/orders" +
		" --bigquery-table=data-project:kafka.orders_raw --write-metadata --use-table-schema --message-filter='attributes.kafka_topic = \"orders\"'" +
		" --message-retention-duration=7d --expiration-period=never --min-retry-delay=10s --max-retry-delay=600s" +
		" --dead-letter-topic=projects/example-project/topics/dead --max-delivery-attempts=100"
	if got := s.Command(); got != want {
		t.Errorf("command\n%s\nwant\n%s", got, want)
	}
	s.Shared, s.TableSchema, s.DeadLetter, s.Table = false, false, "", "example.com:old.kafka.orders_raw"
	if got := s.Command(); strings.Contains(got, "dead-letter") || strings.Contains(got, "filter") || strings.Contains(got, "schema") || !strings.Contains(got, "example.com:old:kafka.orders_raw") {
		t.Errorf("command %s", got)
	}
	s.Shared, s.TopicFilter = true, strings.Repeat("x", longestFilter+1)
	if s.filter() != "" {
		t.Error("a filter that Pub/Sub refuses")
	}
}

func fake(t *testing.T) (*fakepubsub.Server, *Subscriptions) {
	t.Helper()
	server := fakepubsub.New(fakepubsub.Options{})
	address, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if err := server.CreateTopics(ordersTopic, deadTopic); err != nil {
		t.Fatal(err)
	}
	client, err := OpenSubscriptions(t.Context(), "", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

func TestApplySubscription(t *testing.T) {
	server, client := fake(t)
	want := ordersSubscription()
	expect := func(status Status) Finding {
		t.Helper()
		f := client.Compare(t.Context(), want)
		if f.Status != status {
			t.Fatalf("status %s, want %s: %+v", f.Status, status, f)
		}
		return f
	}
	apply := func() {
		t.Helper()
		if err := client.Apply(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		expect(Same)
	}
	expect(Absent)
	apply()
	apply() // again: nothing to do
	made := server.Subscriptions()[want.Name()]
	if made.GetBigqueryConfig().GetTable() != want.Table || !made.GetBigqueryConfig().GetWriteMetadata() || made.GetBigqueryConfig().GetUseTableSchema() ||
		made.GetFilter() != "" || made.GetExpirationPolicy() == nil || made.GetExpirationPolicy().GetTtl() != nil ||
		made.GetDeadLetterPolicy().GetMaxDeliveryAttempts() != 100 || made.GetMessageRetentionDuration().AsDuration().Hours() != 7*24 {
		t.Errorf("made %v", made)
	}

	want.RetentionDays, want.TableSchema, want.DeadLetter = 31, true, ""
	f := expect(Different)
	var what []string
	for _, d := range f.Differences {
		what = append(what, d.What)
	}
	if !slices.Equal(what, []string{"BigQuery settings", "message retention", "dead-letter policy"}) || !f.Replaceable {
		t.Errorf("differences %v, replaceable %v", f.Differences, f.Replaceable)
	}
	apply()

	want.Table = "data-project.kafka.other_raw"
	if f := expect(Different); f.Replaceable || !strings.Contains(f.Differences[0].String(), "cannot be changed: stop the bridge, delete it") {
		t.Errorf("a subscription to another table: %+v", f)
	}
	if err := client.Apply(t.Context(), want); err == nil || server.Subscriptions()[want.Name()].GetBigqueryConfig().GetTable() == want.Table {
		t.Errorf("somebody's subscription was turned to another table: %v", err)
	}
}

func TestApplySubscriptionProblems(t *testing.T) {
	server, client := fake(t)
	want := ordersSubscription()
	want.DeadLetter += "-not"
	if err := client.Apply(t.Context(), want); KindOf(err) != Missing || !strings.Contains(err.Error(), "gcloud pubsub topics create") {
		t.Errorf("a topic that is missing: %v", err)
	}
	server.RefuseAdmin(func(method, _ string) codes.Code {
		if method == "CreateSubscription" {
			return codes.PermissionDenied
		}
		return codes.OK
	})
	if err := client.Apply(t.Context(), ordersSubscription()); KindOf(err) != Denied || !strings.Contains(err.Error(), "roles/pubsub.editor") {
		t.Errorf("a permission that is missing: %v", err)
	}
	server.RefuseAdmin(func(string, string) codes.Code { return codes.PermissionDenied })
	if f := client.Compare(t.Context(), ordersSubscription()); f.Status != Unclear || f.Problem == "" {
		t.Errorf("what may not be looked at: %+v", f)
	}
}

func TestRefusalNamesTheServiceAgent(t *testing.T) {
	const text = "Service account service-123@gcp-sa-pubsub.iam.gserviceaccount.com is missing permissions required to write to the BigQuery table: bigquery.tables.get, bigquery.tables.updateData."
	err := refusal("creating", ordersSubscription(), status.Error(codes.InvalidArgument, text))
	if KindOf(err) != Denied || !strings.HasPrefix(err.Error(), "grant roles/bigquery.dataEditor on the dataset of data-project.kafka.orders_raw to service-123@gcp-sa-pubsub") {
		t.Error(err)
	}
}

func TestCompareSubscription(t *testing.T) {
	tests := []struct {
		name    string
		shared  bool
		change  func(*pubsubpb.Subscription)
		fields  []string
		refused bool
		note    string
	}{
		{name: "same"},
		{name: "no filter where one is wanted", shared: true, note: "it has no filter"},
		{name: "a filter that is not needed", change: func(s *pubsubpb.Subscription) { s.Filter = `attributes.kafka_topic = "orders"` }, note: "not needed"},
		{name: "another filter", change: func(s *pubsubpb.Subscription) { s.Filter = `hasPrefix(attributes.kafka_topic, "o")` }, refused: true},
		{name: "another topic", change: func(s *pubsubpb.Subscription) { s.Topic = deadTopic }, refused: true},
		{name: "detached", change: func(s *pubsubpb.Subscription) { s.Detached = true }, refused: true},
		{name: "keeps less", change: func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(24 * time.Hour) }, fields: []string{"message_retention_duration"}},
		{name: "keeps more, which would be lost", change: func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(31 * 24 * time.Hour) }, refused: true},
		{name: "no table at all", change: func(s *pubsubpb.Subscription) { s.BigqueryConfig = nil }, refused: true},
		{name: "expires", change: func(s *pubsubpb.Subscription) { s.ExpirationPolicy = nil }, fields: []string{"expiration_policy"}},
		{name: "drops what does not fit", change: func(s *pubsubpb.Subscription) { s.BigqueryConfig.DropUnknownFields = true }, fields: []string{"bigquery_config"}},
		{name: "no retry policy", change: func(s *pubsubpb.Subscription) { s.RetryPolicy = nil }, fields: []string{"retry_policy"}},
		{name: "another retry policy", change: func(s *pubsubpb.Subscription) { s.RetryPolicy.MinimumBackoff = durationpb.New(1e9) }},
		{name: "gives up early", change: func(s *pubsubpb.Subscription) { s.DeadLetterPolicy.MaxDeliveryAttempts = 5 }, fields: []string{"dead_letter_policy"}},
		{name: "may not write", change: func(s *pubsubpb.Subscription) {
			s.BigqueryConfig.State = pubsubpb.BigQueryConfig_PERMISSION_DENIED
		}, note: "roles/bigquery.dataEditor"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			have := ordersSubscription().message()
			if test.change != nil {
				test.change(have)
			}
			want := ordersSubscription()
			want.Shared = test.shared
			c := compareSubscription(want, have)
			if !slices.Equal(c.fields, test.fields) || c.refused != test.refused || (len(c.differences) > 0) != (test.refused || test.fields != nil) {
				t.Errorf("change %+v", c)
			}
			if notes := strings.Join(c.notes, "; "); (test.note == "") != (notes == "") || !strings.Contains(notes, test.note) {
				t.Errorf("notes %q", notes)
			}
		})
	}
	schema := ordersSubscription()
	schema.TableSchema = true
	old := schema.message()
	if schema.Shared = true; !strings.Contains(strings.Join(compareSubscription(schema, old).notes, "; "), "becomes dead letters") {
		t.Error("nothing is said of messages that do not fit the schema")
	}
	have := ordersSubscription().message()
	have.BigqueryConfig.ServiceAccountEmail = "writer@example-project.iam.gserviceaccount.com"
	have.Labels = map[string]string{"team": "shop"}
	out := updated(ordersSubscription(), have, []string{"bigquery_config"})
	if out.GetBigqueryConfig().GetServiceAccountEmail() == "" || out.GetLabels()["team"] != "shop" {
		t.Errorf("an update forgets what is not ours: %v", out)
	}
}
