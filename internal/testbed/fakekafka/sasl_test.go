package fakekafka_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

const brokerHost = "b-1.test.kafka.eu-west-1.amazonaws.com"

// iamCluster demands SASL on a virtual network and knows one key.
type iamCluster struct {
	*fakekafka.Cluster

	mu    sync.Mutex // guards what follows
	who   fakekafka.Identity
	heard []fakekafka.Handshake
}

func startIAM(t *testing.T, s fakekafka.SASL) *iamCluster {
	t.Helper()
	c := &iamCluster{who: fakekafka.Identity{SecretKey: "secret/+=", SessionToken: "token/+==", Principal: "arn:role/bridge/one"}}
	s.Region, s.Hosts = "eu-west-1", []string{brokerHost}
	s.Identity = func(key string) (fakekafka.Identity, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.who, key == "AKIA1"
	}
	s.Told = func(h fakekafka.Handshake) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heard = append(c.heard, h)
	}
	c.Cluster = start(t, fakekafka.Options{
		Network: &kfake.VirtualNetwork{}, SASL: &s,
		Advertise: func(at string) string { return strings.Replace(at, "localhost", brokerHost, 1) },
	})
	return c
}

func (c *iamCluster) become(change func(*fakekafka.Identity)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.who)
}

func (c *iamCluster) handshakes() []fakekafka.Handshake {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]fakekafka.Handshake(nil), c.heard...)
}

func goodKey() aws.Auth {
	return aws.Auth{AccessKey: "AKIA1", SecretKey: "secret/+=", SessionToken: "token/+=="}
}

// as signs with a host name other than the dialled one.
type as struct {
	sasl.Mechanism
	host string
}

func (m as) Authenticate(ctx context.Context, _ string) (sasl.Session, []byte, error) {
	return m.Mechanism.Authenticate(ctx, m.host)
}

// after lets time pass between signing and sending.
type after struct {
	sasl.Mechanism
	wait time.Duration
}

func (m after) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	s, proof, err := m.Mechanism.Authenticate(ctx, host)
	select {
	case <-time.After(m.wait):
		return s, proof, err
	case <-ctx.Done(): // the client was closed
		return nil, nil, ctx.Err()
	}
}

// token is an OAUTHBEARER mechanism with a token of AWS's own signer, changed.
func token(region, secret string, change func(url.Values)) sasl.Mechanism {
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		keys := awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
			return awssdk.Credentials{AccessKeyID: "AKIA1", SecretAccessKey: secret, SessionToken: "token/+=="}, nil
		})
		t, _, err := signer.GenerateAuthTokenFromCredentialsProvider(ctx, region, keys)
		if err != nil || change == nil {
			return oauth.Auth{Token: t}, err
		}
		raw, err := base64.RawURLEncoding.DecodeString(t)
		if err != nil {
			return oauth.Auth{}, err
		}
		u, err := url.Parse(string(raw))
		if err != nil {
			return oauth.Auth{}, err
		}
		q := u.Query()
		change(q)
		u.RawQuery = q.Encode()
		return oauth.Auth{Token: base64.RawURLEncoding.EncodeToString([]byte(u.String()))}, nil
	})
}

func TestSignatures(t *testing.T) {
	wrong := func(change func(*aws.Auth)) sasl.Mechanism {
		a := goodKey()
		change(&a)
		return a.AsManagedStreamingIAMMechanism()
	}
	good := goodKey().AsManagedStreamingIAMMechanism()
	for _, c := range []struct {
		name      string
		mechanism sasl.Mechanism
		change    func(*fakekafka.Identity)
		want      string // in the broker's answer; "" lets in
	}{
		{"good", good, nil, ""},
		{"unknown key", wrong(func(a *aws.Auth) { a.AccessKey = "AKIA2" }), nil, "invalid or expired"},
		{"wrong secret", wrong(func(a *aws.Auth) { a.SecretKey = "other" }), nil, "signature"},
		{"wrong session token", wrong(func(a *aws.Auth) { a.SessionToken = "other" }), nil, "security token"},
		{"no session token", wrong(func(a *aws.Auth) { a.SessionToken = "" }), nil, "security token"},
		{"another host of the region", as{good, "b-2.test.kafka.eu-west-1.amazonaws.com:9098"}, nil, "signed for host b-2"},
		{"another region", as{good, "b-1.test.kafka.us-east-1.amazonaws.com:9098"}, nil, "signed for host"},
		{"a minute old", after{good, time.Minute}, nil, ""},
		{"16 minutes old", after{good, 16 * time.Minute}, nil, "signature expired"},
		{"expired credentials", good, func(i *fakekafka.Identity) { i.Expires = time.Now() }, "invalid or expired"},
		{"no permission", good, func(i *fakekafka.Identity) { i.Denied = true }, "access denied"},
		{"oauth good", token("eu-west-1", "secret/+=", nil), nil, ""},
		{"oauth another region", token("us-east-1", "secret/+=", nil), nil, "signed for host kafka.us-east-1"},
		{"oauth wrong secret", token("eu-west-1", "other", nil), nil, "signature"},
		{"oauth 16 minutes old", after{token("eu-west-1", "secret/+=", nil), 16 * time.Minute}, nil, "signature expired"},
		{"oauth longer validity", token("eu-west-1", "secret/+=", func(q url.Values) { q.Set("X-Amz-Expires", "3600") }), nil, "900 seconds"},
		{"oauth other action", token("eu-west-1", "secret/+=", func(q url.Values) { q.Set("Action", "kafka-cluster:AlterCluster") }), nil, "kafka-cluster:Connect"},
		{"oauth future date", token("eu-west-1", "secret/+=", func(q url.Values) {
			q.Set("X-Amz-Date", time.Now().Add(6*time.Minute).UTC().Format("20060102T150405Z"))
		}), nil, "signature expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := startIAM(t, fakekafka.SASL{})
				if c.change != nil {
					cluster.become(c.change)
				}
				err := client(t, cluster.Cluster, kgo.SASL(c.mechanism)).Ping(t.Context())
				switch {
				case c.want == "" && err != nil:
					t.Fatal(err)
				case c.want != "" && !errors.Is(err, kerr.SaslAuthenticationFailed):
					t.Fatalf("got %v, want a refusal", err)
				}
				h := cluster.handshakes()
				if last := h[len(h)-1].Err; (last == nil) != (c.want == "") || last != nil && !strings.Contains(last.Error(), c.want) {
					t.Errorf("the broker says %v, want %q", last, c.want)
				}
			})
		})
	}
}

func TestNobodyIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := startIAM(t, fakekafka.SASL{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := client(t, cluster.Cluster).Ping(ctx); err == nil {
			t.Error("a client without SASL was answered")
		}
	})
}

// TestSessions renews sessions on their connections and refuses what MSK does.
func TestSessions(t *testing.T) {
	for _, c := range []struct {
		name   string
		sasl   fakekafka.SASL
		change func(*fakekafka.Identity) // after the first handshake
		want   string                    // of a later handshake
	}{
		{"renewed", fakekafka.SASL{Session: 10 * time.Second}, func(*fakekafka.Identity) {}, ""},
		{"principal changed", fakekafka.SASL{Session: 10 * time.Second}, func(i *fakekafka.Identity) { i.Principal = "arn:role/bridge/two" }, "principals may not change"},
		{"too short", fakekafka.SASL{Session: 10 * time.Second, Shortest: 5 * time.Second}, func(i *fakekafka.Identity) { i.Expires = time.Now().Add(11 * time.Second) }, "session too short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := startIAM(t, c.sasl)
				cl := client(t, cluster.Cluster, kgo.SASL(goodKey().AsManagedStreamingIAMMechanism()), kgo.RequestRetries(0))
				ask := func() error { // always on the same connection, while it lives
					_, err := cl.SeedBrokers()[0].Request(t.Context(), kmsg.NewPtrMetadataRequest())
					return err
				}
				if err := ask(); err != nil {
					t.Fatal(err)
				}
				cluster.become(c.change)
				for range 30 {
					<-time.After(time.Second)
					_ = ask() // what the broker heard is looked at below
				}
				again, found := 0, false
				for _, h := range cluster.handshakes() {
					if h.Again && h.Err == nil {
						again++
					}
					found = found || h.Err != nil && strings.Contains(h.Err.Error(), c.want)
				}
				if c.want == "" && again < 2 {
					t.Errorf("the session was renewed %d times on its connection in 30 s, want at least 2", again)
				}
				if c.want != "" && !found {
					t.Errorf("no handshake was refused with %q; the last of them: %+v", c.want, cluster.handshakes()[:3])
				}
			})
		})
	}
}
