//go:build integration && unix

package integration

import (
	"context"
	"crypto/x509"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

const scramPassword = "canary-9d2f-password"

// secured is a cluster that lets in nobody without a permission, over SASL_SSL
// with SCRAM-SHA-512 and over TLS with client certificates.
type secured struct {
	*kafka
	authority *authority
}

func newSecured(t testing.TB, version string) *secured {
	t.Helper()
	a := newAuthority(t)
	cert, key := a.issue("broker", x509.ExtKeyUsageServerAuth)
	c, err := realkafka.Start(t.Context(), realkafka.Options{
		Version:   version,
		Listeners: []realkafka.Listener{{Name: "PASSWORD", Protocol: "SASL_SSL"}, {Name: "CERTIFICATE", Protocol: "SSL"}},
		Properties: map[string]string{
			"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":           "User:ANONYMOUS", // the launcher and the test, on the plaintext listener
			"ssl.keystore.type":     "PEM", "ssl.keystore.location": a.together("broker.pem", key, cert),
			"ssl.truststore.type": "PEM", "ssl.truststore.location": a.file,
			"listener.name.certificate.ssl.client.auth":             "required",
			"sasl.enabled.mechanisms":                               "SCRAM-SHA-512",
			"listener.name.password.sasl.enabled.mechanisms":        "SCRAM-SHA-512",
			"listener.name.password.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
			"listener.name.password.connections.max.reauth.ms":      "10000",
			"group.min.session.timeout.ms":                          "6000",
		},
	})
	need(t, err)
	t.Cleanup(func() {
		explain(t, c)
		_ = c.Close()
	})
	return &secured{&kafka{brokers: c.Brokers(), version: c.Version(), own: c}, a}
}

// TestSecuredKafka brings a load through each listener with exactly the ACLs
// that docs/access.md names, Read on the topics and the group. Each of them is
// taken away and given back: the bridge names what it misses and goes on.
func TestSecuredKafka(t *testing.T) {
	for _, version := range []string{realkafka.Version3, realkafka.Version4} {
		t.Run(version, func(t *testing.T) {
			k := newSecured(t, version)
			t.Run("scram", func(t *testing.T) {
				file := k.authority.write("password", []byte(scramPassword+"\n"))
				testAccess(t, k, "User:bridge", k.own.BrokersOn("PASSWORD"), map[string]string{
					"BRIDGE_AUTH": "scram", "BRIDGE_SCRAM_USER": "bridge", "BRIDGE_SCRAM_PASSWORD_FILE": file,
				})
			})
			t.Run("mtls", func(t *testing.T) {
				cert, key := k.authority.issue("bridge", x509.ExtKeyUsageClientAuth)
				testAccess(t, k, "User:CN=bridge", k.own.BrokersOn("CERTIFICATE"), map[string]string{
					"BRIDGE_AUTH": "mtls", "BRIDGE_TLS_CERT_FILE": cert, "BRIDGE_TLS_KEY_FILE": key,
				})
			})
		})
	}
}

func testAccess(t *testing.T, k *secured, principal string, brokers []string, settings map[string]string) {
	s := newScene(t, k.kafka, 2)
	s.toFake()
	delete(s.settings, "BRIDGE_ALLOW_PLAINTEXT")
	s.settings["BRIDGE_BROKERS"], s.settings["BRIDGE_TLS_CA_FILE"] = strings.Join(brokers, ","), k.authority.file
	maps.Copy(s.settings, settings)
	if principal == "User:bridge" {
		s.createUser("bridge", scramPassword)
	}
	group := read(principal).Groups(s.group)
	s.allow(read(principal).Topics(s.topics...))
	s.allow(group)

	b := s.start("one")
	b.awaitReady()
	stop := s.run(records(t)/10, perSecond(t)/4)
	stop()
	s.awaitAll(patience(t))

	refused := s.topics[0]
	who := strings.TrimPrefix(principal, "User:")
	s.withdrawn(b, read(principal).Topics(refused), who, "may not read topic "+refused)
	s.withdrawn(b, group, who, "may not use group "+s.group)

	s.awaitCommits(s.group)
	_, status := b.get("/status.json")
	_, metrics := b.get("/metrics")
	exit := b.terminate()
	log, err := os.ReadFile(b.Log())
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string][]byte{"log": log, "status": status, "metrics": metrics} {
		if len(text) == 0 || strings.Contains(string(text), scramPassword) {
			t.Errorf("the %s is empty or shows the password", where)
		}
	}
	s.summary("%s over %v, exit code %d %v after SIGTERM", principal, brokers, b.ExitCode(), exit)
}

// read is the permission to read what is added to it.
func read(principal string) *kadm.ACLBuilder {
	return kadm.NewACLs().Allow(principal).AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
}

// withdrawn takes a permission away while records come, waits until /ready says
// who misses what, and gives it back.
func (s *scene) withdrawn(b *bridge, acl *kadm.ACLBuilder, who, want string) {
	s.t.Helper()
	s.forbid(acl)
	for i := range int32(30) {
		for _, topic := range s.topics {
			s.produce(&kgo.Record{Topic: topic, Partition: i % partitions, Value: []byte("waits for the permission")})
		}
	}
	named := eventually(s.t, time.Minute, "/ready to say: "+who+" "+want, func() bool {
		status, body := b.get("/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(string(body), who) && strings.Contains(string(body), want)
	})
	_, body := b.get("/ready")
	s.t.Logf("named after %v: %s", named, strings.TrimSpace(string(body)))
	s.allow(acl)
	began := time.Now()
	s.awaitAll(2 * time.Minute)
	arrived := since(began)
	b.awaitReady()
	s.t.Logf("granted again: all arrived after %v, ready after %v", arrived, since(began))
}

func (s *scene) createUser(user, password string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	made, err := s.admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		s.t.Fatalf("creating user %s: %v", user, err)
	}
}

func (s *scene) allow(acl *kadm.ACLBuilder) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	made, err := s.admin.CreateACLs(ctx, acl)
	for _, m := range made {
		if err == nil {
			err = m.Err
		}
	}
	if err != nil {
		s.t.Fatalf("creating ACLs: %v", err)
	}
}

func (s *scene) forbid(acl *kadm.ACLBuilder) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	gone, err := s.admin.DeleteACLs(ctx, acl)
	n := 0
	for _, g := range gone {
		n += len(g.Deleted)
		if err == nil {
			err = g.Err
		}
	}
	if err != nil || n == 0 {
		s.t.Fatalf("deleting ACLs: %d deleted, %v", n, err)
	}
}
