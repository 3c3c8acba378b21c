package remote

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// Subscription is the one that writes a route's raw table.
type Subscription struct {
	Project string // of the subscription: that of the topic
	Topic   string // projects/P/topics/T, the route's destination
	Table   string // PROJECT.DATASET.TABLE
	// KafkaTopic names the subscription.
	KafkaTopic string
	// TopicFilter selects the messages of the Kafka topic. It is set where Shared:
	// other routes publish to the same topic.
	TopicFilter string
	Shared      bool
	// TableSchema is that data is an object with a member for each column.
	TableSchema bool
	// DeadLetter is projects/P/topics/T, "" for none: then a message that does
	// not fit is delivered again until the retention ends.
	DeadLetter string
	// RetentionDays is 1 to 31.
	RetentionDays int
}

// Limits of Pub/Sub, and what comes closest to never giving up: a table that is
// altered or a permission that is missing must not empty a topic into the
// dead letters.
const (
	deliveryAttempts = 100 // the most Pub/Sub takes
	mostBackoff      = 10 * time.Minute
	leastBackoff     = 10 * time.Second
	longestID        = 255
	longestFilter    = 256 // bytes
)

// plainID is a Kafka topic whose name may begin that of a subscription.
var plainID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

const (
	idEnding = "-bigquery"
	idEscape = "mskbridge_____" // before stems of topics whose names may not begin an id
)

// ID returns the id of the subscription: the Kafka topic's and "-bigquery", so
// no two topics share one. Names that Pub/Sub takes at no beginning (it wants a
// letter, and not "goog") or that are too long have their stem instead.
func (s Subscription) ID() string {
	t := s.KafkaTopic
	if plainID.MatchString(t) && !strings.HasPrefix(strings.ToLower(t), "goog") && !strings.HasPrefix(t, idEscape) && len(t)+len(idEnding) <= longestID {
		return t + idEnding
	}
	return idEscape + warehouse.Stem(t) + idEnding
}

// Name is projects/P/subscriptions/ID.
func (s Subscription) Name() string { return "projects/" + s.Project + "/subscriptions/" + s.ID() }

// Command is the gcloud line that makes the same.
func (s Subscription) Command() string {
	table := s.Table
	if i := strings.LastIndexByte(table[:max(0, strings.LastIndexByte(table, '.'))], '.'); i >= 0 {
		table = table[:i] + ":" + table[i+1:]
	}
	line := fmt.Sprintf("gcloud pubsub subscriptions create %s --project=%s --topic=%s --bigquery-table=%s --write-metadata", s.ID(), s.Project, s.Topic, table)
	if s.TableSchema {
		line += " --use-table-schema"
	}
	if f := s.filter(); f != "" {
		line += " --message-filter='" + f + "'"
	}
	line += fmt.Sprintf(" --message-retention-duration=%dd --expiration-period=never --min-retry-delay=%.0fs --max-retry-delay=%.0fs",
		s.RetentionDays, leastBackoff.Seconds(), mostBackoff.Seconds())
	if s.DeadLetter != "" {
		line += fmt.Sprintf(" --dead-letter-topic=%s --max-delivery-attempts=%d", s.DeadLetter, deliveryAttempts)
	}
	return line
}

// filter is "" where none is needed, and where Pub/Sub takes none so long: then
// what others publish lands in the rejects.
func (s Subscription) filter() string {
	if !s.Shared || len(s.TopicFilter) > longestFilter {
		return ""
	}
	return s.topicFilter()
}

func (s Subscription) topicFilter() string {
	return fmt.Sprintf("attributes.kafka_topic = %q", s.KafkaTopic)
}

// message is the subscription as Pub/Sub takes it.
func (s Subscription) message() *pubsubpb.Subscription {
	m := &pubsubpb.Subscription{
		Name: s.Name(), Topic: s.Topic, Filter: s.filter(),
		MessageRetentionDuration: durationpb.New(time.Duration(s.RetentionDays) * 24 * time.Hour),
		ExpirationPolicy:         &pubsubpb.ExpirationPolicy{}, // without a time it never expires
		RetryPolicy:              &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(leastBackoff), MaximumBackoff: durationpb.New(mostBackoff)},
		BigqueryConfig:           &pubsubpb.BigQueryConfig{Table: s.Table, WriteMetadata: true, UseTableSchema: s.TableSchema},
	}
	if s.DeadLetter != "" {
		m.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: s.DeadLetter, MaxDeliveryAttempts: deliveryAttempts}
	}
	return m
}

// change is what must be done to a subscription that exists.
type change struct {
	fields      []string     // of an update, as field masks name them
	differences []Difference // what the update mends, and what it cannot
	refused     bool         // something cannot be changed
	notes       []string
}

// compareSubscription looks at what exists. What another route or somebody's
// own subscription could be meant by is never changed.
func compareSubscription(want Subscription, have *pubsubpb.Subscription) (c change) {
	w := want.message()
	differ := func(what, h, w, field string) {
		if h == w {
			return
		}
		d := Difference{What: what, Have: h, Want: w}
		if field == "" {
			c.refused = true
			// Messages that are published while there is none are nowhere.
			d.Do = "cannot be changed: stop the bridge, delete it once its backlog is written, apply again, or by hand " + want.Command() + ", and only then start the bridge"
		} else {
			c.fields = append(c.fields, field)
		}
		c.differences = append(c.differences, d)
	}
	differ("topic", have.GetTopic(), w.GetTopic(), "")
	if have.GetDetached() {
		differ("state", "detached, so it gets nothing", "attached", "")
	}
	differ("table", have.GetBigqueryConfig().GetTable(), w.GetBigqueryConfig().GetTable(), "")
	c.filter(want, have, differ)
	if c.refused {
		return c
	}
	bq := have.GetBigqueryConfig()
	differ("BigQuery settings", settings(bq), settings(w.GetBigqueryConfig()), "bigquery_config")
	if h, w := have.GetMessageRetentionDuration().AsDuration(), w.GetMessageRetentionDuration().AsDuration(); h > w {
		c.refused = true
		c.differences = append(c.differences, Difference{
			What: "message retention", Have: days(h), Want: days(w),
			Do: fmt.Sprintf("a shorter one would drop what still waits for the table: pass --retention-days %.0f, or shorten it yourself", math.Ceil(h.Hours()/24)),
		})
	} else {
		differ("message retention", days(h), days(w), "message_retention_duration")
	}
	differ("expiration", expiration(have), expiration(w), "expiration_policy")
	differ("dead-letter policy", deadLetters(have), deadLetters(w), "dead_letter_policy")
	if have.GetRetryPolicy() == nil {
		differ("retry policy", "", "10s to 600s", "retry_policy")
	}
	if state := bq.GetState(); state > pubsubpb.BigQueryConfig_ACTIVE {
		c.notes = append(c.notes, "it does not write: "+states()[state])
	}
	return c
}

// filter judges a filter, which cannot be changed. Without one, records of
// other routes land among the rejects, which costs storage and nothing else, or
// do not fit the table's schema.
func (c *change) filter(want Subscription, have *pubsubpb.Subscription, differ func(what, h, w, field string)) {
	switch f := have.GetFilter(); {
	case f == want.filter():
	case f == "" && want.TableSchema:
		c.notes = append(c.notes, "it has no filter, so what other routes publish in another format is tried for hours and becomes dead letters; a filter cannot be added later")
	case f == "":
		c.notes = append(c.notes, "it has no filter, so records of other routes land in the rejects; a filter cannot be added later")
	case f == want.TopicFilter:
		c.notes = append(c.notes, "its filter is not needed: no other route shares the topic")
	default:
		differ("filter", f, want.filter(), "")
	}
}

func states() map[pubsubpb.BigQueryConfig_State]string {
	return map[pubsubpb.BigQueryConfig_State]string{
		pubsubpb.BigQueryConfig_PERMISSION_DENIED:               "grant roles/bigquery.dataEditor on the dataset to Pub/Sub's service agent (service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com)",
		pubsubpb.BigQueryConfig_NOT_FOUND:                       "its table does not exist",
		pubsubpb.BigQueryConfig_SCHEMA_MISMATCH:                 "the table does not have the columns it writes: mskbridge sql --check",
		pubsubpb.BigQueryConfig_IN_TRANSIT_LOCATION_RESTRICTION: "an organisation policy forbids to carry messages to the dataset's location",
	}
}

func settings(b *pubsubpb.BigQueryConfig) string {
	return fmt.Sprintf("write_metadata=%v use_table_schema=%v use_topic_schema=%v drop_unknown_fields=%v",
		b.GetWriteMetadata(), b.GetUseTableSchema(), b.GetUseTopicSchema(), b.GetDropUnknownFields())
}

func expiration(s *pubsubpb.Subscription) string {
	if s.GetExpirationPolicy() == nil {
		return "31 days" // Pub/Sub's default
	}
	return days(s.GetExpirationPolicy().GetTtl().AsDuration())
}

func deadLetters(s *pubsubpb.Subscription) string {
	p := s.GetDeadLetterPolicy()
	if p.GetDeadLetterTopic() == "" {
		return ""
	}
	return fmt.Sprintf("%s after %d attempts", p.GetDeadLetterTopic(), cmp.Or(p.GetMaxDeliveryAttempts(), 5))
}

// updated is what exists with the fields of the change as they are wanted, and
// all that is not ours as it is.
func updated(want Subscription, have *pubsubpb.Subscription, fields []string) *pubsubpb.Subscription {
	out, _ := proto.Clone(have).(*pubsubpb.Subscription)
	w := want.message()
	for _, f := range fields {
		switch f {
		case "bigquery_config":
			account := have.GetBigqueryConfig().GetServiceAccountEmail()
			out.BigqueryConfig = w.GetBigqueryConfig()
			out.BigqueryConfig.ServiceAccountEmail = account
		case "message_retention_duration":
			out.MessageRetentionDuration = w.GetMessageRetentionDuration()
		case "expiration_policy":
			out.ExpirationPolicy = w.GetExpirationPolicy()
		case "dead_letter_policy":
			out.DeadLetterPolicy = w.GetDeadLetterPolicy()
		case "retry_policy":
			out.RetryPolicy = w.GetRetryPolicy()
		}
	}
	return out
}
