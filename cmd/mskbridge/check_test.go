package main

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

// wanted is a row that must be there: what it is about begins with what, its
// finding and its advice contain the rest.
type wanted struct {
	what        string
	status      check.Status
	finding, do string
}

func (w wanted) in(rows []check.Row) bool {
	for _, r := range rows {
		if strings.HasPrefix(r.What, w.what) && r.Status == w.status && strings.Contains(r.Finding, w.finding) && strings.Contains(r.Do, w.do) {
			return true
		}
	}
	return false
}

// brokenSetUp is one thing that is wrong, and the row that says so.
type brokenSetUp struct {
	name  string
	kafka fakekafka.Options
	spoil func(*scene)
	code  int
	want  wanted
}

func (b *brokenSetUp) run(t *testing.T) {
	s := newScene(t, b.kafka)
	if b.spoil != nil {
		b.spoil(s)
	}
	s.watch()
	code, rows := s.run()
	if code != b.code {
		t.Errorf("exit code %d, want %d, rows\n%s", code, b.code, show(rows))
	}
	if !b.want.in(rows) {
		t.Errorf("no row %+v in\n%s", b.want, show(rows))
	}
	s.changedNothing()
}

func show(rows []check.Row) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString("  " + string(r.Status) + " | " + r.What + " | " + r.Finding + " | " + r.Do + "\n")
	}
	return b.String()
}

// mutual is a cluster that lets in whom its own certificate vouches for.
func mutual(t *testing.T) fakekafka.Options {
	t.Helper()
	c := certificate(t, 90*24*time.Hour)
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return fakekafka.Options{TLS: c}
}

// advertising is a cluster whose second broker says that it is elsewhere.
func advertising(address string) fakekafka.Options {
	brokers := 0
	return fakekafka.Options{Brokers: 2, Advertise: func(own string) string {
		if brokers++; brokers == 2 {
			return address
		}
		return own
	}}
}

func firstBrokerOnly(s *scene) { s.t.Setenv("BRIDGE_BROKERS", s.kafka.Brokers()[0]) }

func scramEnv(password string) func(*scene) {
	return func(s *scene) {
		s.t.Setenv("BRIDGE_AUTH", "scram")
		s.t.Setenv("BRIDGE_TLS_CA_FILE", s.authority)
		s.t.Setenv("BRIDGE_SCRAM_USER", "bridge")
		s.t.Setenv("BRIDGE_SCRAM_PASSWORD", password)
	}
}

func TestCheckFindsWhatIsWrongWithKafka(t *testing.T) {
	for _, b := range []brokenSetUp{
		{
			"nothing listens",
			fakekafka.Options{},
			func(s *scene) { s.t.Setenv("BRIDGE_BROKERS", "127.0.0.1:1") }, 1,
			wanted{"bootstrap 127.0.0.1:1", check.Fail, "nothing listens", "check the port"},
		},
		{"one of two bootstrap brokers is wrong", fakekafka.Options{}, func(s *scene) {
			s.t.Setenv("BRIDGE_BROKERS", "127.0.0.1:1,"+s.kafka.Brokers()[0])
		}, 1, wanted{"bootstrap 127.0.0.1:1", check.Fail, "nothing listens", "check the port"}},
		{
			"a name that nobody knows",
			fakekafka.Options{},
			func(s *scene) {
				s.t.Setenv("BRIDGE_BROKERS", "b-1.nowhere.invalid:9092")
				s.t.Setenv("BRIDGE_ALLOW_PLAINTEXT", "true")
			}, 1,
			wanted{"bootstrap b-1.nowhere.invalid:9092", check.Fail, "cannot be resolved", "DNS"},
		},
		{
			"an advertised broker is out of reach", advertising("127.0.0.1:1"), firstBrokerOnly, 1,
			wanted{"broker 127.0.0.1:1", check.Fail, "nothing listens", "check the port"},
		},
		{
			"an advertised broker must not be dialled", advertising("169.254.169.254:80"), firstBrokerOnly, 1,
			wanted{"broker 169.254.169.254:80", check.Fail, "link-local", "BRIDGE_DIAL_ALLOW"},
		},
		{
			"sasl is missing",
			fakekafka.Options{Kfake: []kfake.Opt{kfake.EnableSASL()}},
			nil, 1,
			wanted{"access", check.Fail, "closes connections", "BRIDGE_AUTH"},
		},
		{
			"the topic is missing",
			fakekafka.Options{},
			func(s *scene) { s.t.Setenv("BRIDGE_TOPICS", "order=orders") }, 1,
			wanted{"topic order", check.Fail, "does not exist", "kafka-topics.sh --create --topic order"},
		},
		{"a foreign member", fakekafka.Options{}, func(s *scene) {
			c := s.client(kgo.ClientID("reporting"), kgo.ConsumerGroup("mskbridge"), kgo.ConsumeTopics("orders"))
			for {
				if _, generation := c.GroupMetadata(); generation > 0 {
					return
				}
				c.PollFetches(pollBriefly(s.t))
			}
		}, 1, wanted{"group mskbridge", check.Fail, "reporting at", "BRIDGE_GROUP"}},
		{"a commit below the log", fakekafka.Options{}, func(s *scene) {
			s.produce(10, 0)
			s.commit(2)
			if err := s.kafka.DeleteRecords("orders", 1, 7); err != nil {
				s.t.Fatal(err)
			}
		}, 0, wanted{"topic orders", check.Warn, "next to read is 2, but the log begins at 7: 5 offsets are lost", "retention"}},
		{
			"a commit beyond the log",
			fakekafka.Options{},
			func(s *scene) { s.commit(1000) }, 1,
			wanted{"topic orders", check.Fail, "next to read is 1000, but the log ends at 0", "--reset-offsets --to-earliest"},
		},
		{
			"reading is later than half of retention",
			fakekafka.Options{},
			func(s *scene) { s.produce(10, 50*time.Minute); s.commit(2) }, 0,
			wanted{"topic orders", check.Warn, "half of the retention of 1h0m0s", "raise retention.ms"},
		},
		{"records may be too large", fakekafka.Options{}, func(s *scene) {
			if err := s.kafka.Create("big", 1, map[string]string{"max.message.bytes": "33554432"}); err != nil {
				s.t.Fatal(err)
			}
			s.t.Setenv("BRIDGE_TOPICS", "big=orders")
		}, 0, wanted{"topic big", check.Warn, "34 MB, Pub/Sub takes 10 MB: larger records are parked", "lower max.message.bytes"}},
		{
			"brokers of 3.0",
			fakekafka.Options{Kfake: []kfake.Opt{kfake.MaxVersions(kversion.V3_0_0())}},
			nil, 0,
			wanted{"version", check.Warn, "topic ids come with metadata alone", "3.1"},
		},
		{
			"brokers of 2.7",
			fakekafka.Options{Kfake: []kfake.Opt{kfake.MaxVersions(kversion.V2_7_0())}},
			nil, 0,
			wanted{"version", check.Warn, "no topic ids", "2.8"},
		},
	} {
		t.Run(b.name, b.run)
	}
}

func TestCheckFindsWhatIsWrongWithTLS(t *testing.T) {
	day := 24 * time.Hour
	tlsEnv := func(s *scene) {
		s.t.Setenv("BRIDGE_AUTH", "tls")
		s.t.Setenv("BRIDGE_TLS_CA_FILE", s.authority)
	}
	with := func(valid time.Duration) fakekafka.Options { return fakekafka.Options{TLS: certificate(t, valid)} }
	for _, b := range []brokenSetUp{
		{"nothing", with(90 * day), tlsEnv, 0, wanted{"broker 127.0.0.1", check.OK, "certificate valid for 89 days", ""}},
		{"the port is plaintext", fakekafka.Options{}, func(s *scene) {
			s.t.Setenv("BRIDGE_AUTH", "tls")
			s.t.Setenv("BRIDGE_BROKERS", hangUp(s.t))
		}, 1, wanted{"bootstrap 127.0.0.1", check.Fail, "does not speak TLS", "9094"}},
		{"the port is TLS", with(90 * day), nil, 1, wanted{"access", check.Fail, "", "BRIDGE_AUTH"}},
		{"brokers want certificates", mutual(t), tlsEnv, 1, wanted{"access", check.Fail, "certificate required", "BRIDGE_AUTH=mtls"}},
		{
			"the wrong authority", with(90 * day), func(s *scene) { s.t.Setenv("BRIDGE_AUTH", "tls") }, 1,
			wanted{"bootstrap 127.0.0.1", check.Fail, "authority that is not trusted", "BRIDGE_TLS_CA_FILE"},
		},
		{
			"the wrong server name", with(90 * day), func(s *scene) { tlsEnv(s); s.t.Setenv("BRIDGE_TLS_SERVER_NAME", "b-1.msk.example") }, 1,
			wanted{"bootstrap 127.0.0.1", check.Fail, "not b-1.msk.example", "BRIDGE_TLS_SERVER_NAME"},
		},
		{"an expired certificate", with(-day), tlsEnv, 1, wanted{"bootstrap 127.0.0.1", check.Fail, "has expired", "renew"}},
		{"a certificate that soon expires", with(10 * day), tlsEnv, 0, wanted{"broker 127.0.0.1", check.Warn, "valid for 9 days", "renew"}},
	} {
		t.Run(b.name, b.run)
	}
}

func TestCheckFindsMissingPermissions(t *testing.T) {
	topic, group := kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
	read, describe := kmsg.ACLOperationRead, kmsg.ACLOperationDescribe
	sound := certificate(t, time.Hour*24*90)
	both := []kfake.ACL{allow(topic, "orders", read), allow(group, "mskbridge", read)}
	for _, b := range []brokenSetUp{
		{
			"exactly what is needed, but for settings", scramUser(both...), scramEnv("secret"), 0,
			wanted{"settings", check.Unknown, "not verifiable", ""},
		},
		{"the wrong password", scramUser(both...), func(s *scene) {
			scramEnv("secret")(s)
			s.kafka.ControlKey(kmsg.SASLAuthenticate.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				s.kafka.KeepControl()
				resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
				resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
				return resp, nil, true
			})
		}, 1, wanted{"access", check.Fail, "credentials refused: SASL_AUTHENTICATION_FAILED", "check user and password"}},
		{
			"credentials at which the broker hangs up", scramUser(both...), scramEnv("wrong"), 1,
			wanted{"access", check.Fail, "closes connections", "check user and password"},
		},
		{
			"no right to read the topic", scramUser(allow(topic, "orders", describe), both[1]), scramEnv("secret"), 1,
			wanted{"topic orders", check.Fail, "may be described but not read", "--operation Read --topic orders --allow-principal User:bridge"},
		},
		{
			"no right to the topic", scramUser(both[1]), scramEnv("secret"), 1,
			wanted{"topic orders", check.Fail, "may not be described", "--operation Read --topic orders --allow-principal User:bridge"},
		},
		{
			"no right to read the group", scramUser(both[0], allow(group, "mskbridge", describe)), scramEnv("secret"), 1,
			wanted{"group mskbridge", check.Fail, "may be described but not joined", "--operation Read --group mskbridge --allow-principal User:bridge"},
		},
		{
			"no right to the group", scramUser(both[0]), scramEnv("secret"), 1,
			wanted{"group mskbridge", check.Fail, "may not be described", "--operation Read --group mskbridge --allow-principal User:bridge"},
		},
	} {
		b.kafka.TLS = sound
		t.Run(b.name, b.run)
	}
}

func TestCheckFindsWhatIsWrongWithPubSub(t *testing.T) {
	grant := "gcloud pubsub topics add-iam-policy-binding orders --project=shop-prod --role=roles/pubsub.publisher"
	refuse := func(c codes.Code) func(*scene) {
		return func(s *scene) { s.pubsub.RefuseAdmin(func(string, string) codes.Code { return c }) }
	}
	for _, b := range []brokenSetUp{
		{
			"the topic is missing",
			fakekafka.Options{},
			func(s *scene) { s.pubsub.RemoveTopic(ordersTopic) }, 1,
			wanted{"topic orders", check.Fail, "does not exist", "gcloud pubsub topics create orders --project=shop-prod"},
		},
		{
			"the dead-letter topic is missing",
			fakekafka.Options{},
			func(s *scene) { s.pubsub.RemoveTopic(deadTopic) }, 1,
			wanted{"dead-letter topic dead", check.Fail, "does not exist", "gcloud pubsub topics create dead --project=shop-prod"},
		},
		{
			"no permission to publish",
			fakekafka.Options{},
			func(s *scene) { s.pubsub.Forbid(ordersTopic) }, 1,
			wanted{"topic orders", check.Fail, "pubsub.topics.publish", grant},
		},
		{
			"nothing may be asked",
			fakekafka.Options{},
			refuse(codes.PermissionDenied), 3,
			wanted{"topic orders", check.Unclear, "not verifiable", grant},
		},
		{
			"no identity",
			fakekafka.Options{},
			refuse(codes.Unauthenticated), 1,
			wanted{"topic orders", check.Fail, "no answer: Unauthenticated", ""},
		},
		{
			"nothing listens",
			fakekafka.Options{},
			func(s *scene) { s.t.Setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1") }, 1,
			wanted{"topic orders", check.Fail, "no answer: Unavailable", "PUBSUB_EMULATOR_HOST"},
		},
		{"nobody subscribes", fakekafka.Options{}, func(s *scene) {
			if err := s.pubsub.CreateTopics("projects/shop-prod/topics/lonely"); err != nil {
				s.t.Fatal(err)
			}
			s.t.Setenv("BRIDGE_TOPICS", "orders=lonely")
		}, 0, wanted{"topic lonely", check.Warn, "no subscription", "gcloud pubsub subscriptions create"}},
		{
			"no dead-letter topic",
			fakekafka.Options{},
			func(s *scene) { s.t.Setenv("BRIDGE_DEAD_LETTER_TOPIC", "") }, 0,
			wanted{"dead letters", check.Warn, "orders: no dead-letter topic", "BRIDGE_DEAD_LETTER_TOPIC"},
		},
		{
			"the clock is wrong",
			fakekafka.Options{},
			func(s *scene) { s.clock = 10 * time.Minute }, 0,
			wanted{"clock", check.Warn, "ahead of Google's", "NTP"},
		},
	} {
		t.Run(b.name, b.run)
	}
}
