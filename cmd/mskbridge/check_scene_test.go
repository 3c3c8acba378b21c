package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

const (
	ordersTopic = "projects/shop-prod/topics/orders"
	deadTopic   = "projects/shop-prod/topics/dead"
)

// scene is a Kafka with topic orders and a Pub/Sub with topics orders and dead,
// both sound, and the environment of a bridge between them.
type scene struct {
	t      *testing.T
	kafka  *fakekafka.Cluster
	pubsub *fakepubsub.Server
	clock  time.Duration // by how much Pub/Sub's clock is behind
	// authority is a file with who signed the brokers' certificate, if they have one.
	authority string

	mu    sync.Mutex // guards asked
	asked []kmsg.Key // by clients that call themselves mskbridge
	grew  []string   // metadata requests that would create topics
	keeps *fakepubsub.Messages
}

func newScene(t *testing.T, o fakekafka.Options) *scene {
	t.Helper()
	s := &scene{t: t, keeps: &fakepubsub.Messages{}}
	var err error
	if s.kafka, err = fakekafka.Start(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kafka.Close)
	if o.TLS != nil {
		s.authority = filepath.Join(t.TempDir(), "authority.pem")
		own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.TLS.Certificates[0].Certificate[0]})
		if err := os.WriteFile(s.authority, own, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.kafka.Create("orders", 3, map[string]string{"retention.ms": "3600000"}); err != nil {
		t.Fatal(err)
	}
	s.pubsub = fakepubsub.New(fakepubsub.Options{
		Stores: []fakepubsub.Store{s.keeps}, Clock: func() time.Time { return time.Now().Add(-s.clock) },
	})
	address, err := s.pubsub.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pubsub.Close)
	if err := s.pubsub.CreateTopics(ordersTopic, deadTopic); err != nil {
		t.Fatal(err)
	}
	s.pubsub.Attach(ordersTopic, "projects/shop-prod/subscriptions/orders")
	s.pubsub.Attach(deadTopic, "projects/shop-prod/subscriptions/dead")
	for name, value := range map[string]string{
		"BRIDGE_BROKERS": strings.Join(s.kafka.Brokers(), ","), "BRIDGE_TOPICS": "orders", "BRIDGE_AUTH": "plaintext",
		"BRIDGE_PROJECT": "shop-prod", "BRIDGE_DEAD_LETTER_TOPIC": "dead", "PUBSUB_EMULATOR_HOST": address,
		"BRIDGE_MEMORY": "128MiB", "K_SERVICE": "",
	} {
		t.Setenv(name, value)
	}
	return s
}

// watch records what the bridge asks from now on.
func (s *scene) watch() {
	for key := range kmsg.Key(100) {
		if kmsg.RequestForKey(key.Int16()) == nil {
			continue
		}
		s.kafka.Watch(key, func(client string, req kmsg.Request) func(kmsg.Response) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if client == "mskbridge" && !slices.Contains(s.asked, key) {
				s.asked = append(s.asked, key)
			}
			if m, ok := req.(*kmsg.MetadataRequest); ok && client == "mskbridge" && m.AllowAutoTopicCreation {
				s.grew = append(s.grew, fmt.Sprint(m.Topics))
			}
			return nil
		})
	}
}

// changedNothing checks that only questions were asked.
func (s *scene) changedNothing() {
	s.t.Helper()
	questions := []kmsg.Key{
		kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeGroups, kmsg.OffsetFetch,
		kmsg.ListOffsets, kmsg.Fetch, kmsg.DescribeConfigs, kmsg.SASLHandshake, kmsg.SASLAuthenticate,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.asked {
		if !slices.Contains(questions, key) {
			s.t.Errorf("check sent %s", key.Name())
		}
	}
	if len(s.grew) > 0 {
		s.t.Errorf("metadata requests that create topics: %v", s.grew)
	}
	for _, name := range s.pubsub.Topics() {
		if n := s.pubsub.Stats(name).Requests; n != 0 {
			s.t.Errorf("check published %d requests to %s", n, name)
		}
	}
}

// client is one of the scene's own.
func (s *scene) client(opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	c, err := s.kafka.Client(opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// produce writes n records of the given age to partition 1.
func (s *scene) produce(n int, age time.Duration) {
	s.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: "orders", Partition: 1, Value: []byte("v"), Timestamp: time.Now().Add(-age)}
	}
	c := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := c.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// commit commits next for partition 1.
func (s *scene) commit(next int64) {
	s.t.Helper()
	var at kadm.Offsets
	at.AddOffset("orders", 1, next, -1)
	if err := kadm.NewClient(s.client()).CommitAllOffsets(s.t.Context(), "mskbridge", at); err != nil {
		s.t.Fatal(err)
	}
}

// run runs check and returns the exit code and the rows.
func (s *scene) run() (int, []check.Row) {
	s.t.Helper()
	code, out, _ := runCommand("check", "--output", "json")
	var report struct {
		Result check.Status
		Rows   []check.Row
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	return code, report.Rows
}

func runCommand(args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = execute(args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// certificate is what brokers on 127.0.0.1 show: signed by itself and valid for
// so long from now.
func certificate(t *testing.T, valid time.Duration) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:  []string{"broker.internal"},
		NotBefore: time.Now().Add(-100 * 24 * time.Hour), NotAfter: time.Now().Add(valid),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// scramUser is a user of a cluster with an authorizer, with the given ACLs. The
// scene's own clients are another, who may do everything.
func scramUser(acls ...kfake.ACL) fakekafka.Options {
	return fakekafka.Options{Kfake: []kfake.Opt{
		kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("SCRAM-SHA-512", "admin", "admin"), kfake.User("SCRAM-SHA-512", "bridge", "secret", acls...),
	}}
}

// allow is an ACL of the user.
func allow(kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
}

// pollBriefly is the context of a poll that gives up soon.
func pollBriefly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// listen hands every connection to serve, keeps it open afterwards, and returns
// the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			serve(c)
		}
	}()
	return l.Addr().String()
}

// hangUp closes connections at the first bytes, as a plaintext listener of
// Kafka does at those of TLS, which it takes for an impossible size.
func hangUp(t *testing.T) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4))
		c.Close()
	})
}
