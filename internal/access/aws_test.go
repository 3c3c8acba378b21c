package access

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mskbridge/mskbridge/internal/testbed/fakeaws"
)

const (
	testRole     = "arn:aws:iam::123456789012:role/bridge"
	testAudience = "sts.amazonaws.com"
)

// cloud is both ends of keyless access on a virtual network, and a source that
// asks them.
type cloud struct {
	*fakeaws.Server
	source *Source
	log    *bytes.Buffer
}

func newCloud(t *testing.T, o fakeaws.Options) *cloud {
	t.Helper()
	t.Setenv("AWS_CA_BUNDLE", "") // of whoever runs the tests; the SDK would want to add it to the client
	o.Region, o.Role, o.Audience = "eu-west-1", testRole, testAudience
	c := &cloud{Server: fakeaws.New(o), log: &bytes.Buffer{}}
	network := &kfake.VirtualNetwork{}
	l, err := network.Listen("tcp", "localhost:80")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- c.Serve(l) }()
	client := c.Client(network.DialContext)
	t.Cleanup(func() {
		client.CloseIdleConnections()
		c.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	c.source, err = NewSource(t.Context(), AWS{
		RoleARN: testRole, Audience: testAudience, Region: "eu-west-1", Session: SessionName("orders group"),
		HTTP: client, Log: slog.New(slog.NewTextHandler(c.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get returns credentials or fails.
func (c *cloud) get(t *testing.T) aws.Credentials {
	t.Helper()
	got, err := c.source.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestManyHandshakesAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, fakeaws.Options{})
		var asked sync.WaitGroup
		for range 50 {
			asked.Go(func() { c.get(t) })
		}
		asked.Wait()
		if n := len(c.Sessions()); n != 1 || c.Tokens() != 1 {
			t.Errorf("50 handshakes made %d sessions from %d tokens, want one", n, c.Tokens())
		}
		if got := c.Sessions()[0]; got != "mskbridge-orders-group" {
			t.Errorf("session name %q", got)
		}
	})
}

// TestReplacedInTime has credentials replaced when a third to a quarter of
// their life is left, whatever it is, and always for the same principal.
func TestReplacedInTime(t *testing.T) {
	for _, life := range []time.Duration{time.Minute, time.Hour, 12 * time.Hour} {
		t.Run(life.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(t, fakeaws.Options{Life: life})
				for began := time.Now(); time.Since(began) < 10*life; <-time.After(life / 60) {
					who, ok := c.Identity(c.get(t).AccessKeyID)
					if left := time.Until(who.Expires); !ok || left < life*15/64 {
						t.Fatalf("credentials with %v of %v left", left, life)
					}
					if who.Principal != "arn:aws:sts::123456789012:assumed-role/bridge/mskbridge-orders-group" {
						t.Fatalf("principal %s", who.Principal)
					}
				}
				if n := len(c.Sessions()); n < 13 || n > 16 {
					t.Errorf("%d sessions in ten lives, want about 14", n)
				}
			})
		})
	}
}

// TestOutages: credentials in hand serve until their end; without any the error
// names what is wrong; nothing needs a restart.
func TestOutages(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*fakeaws.Server, bool)
		want  []string
	}{
		{"sts and metadata server down", (*fakeaws.Server).Down, []string{"metadata server", "503"}},
		{"trust withdrawn", (*fakeaws.Server).Distrust, []string{"AWS STS for role " + testRole, "AccessDenied", "trust policy", "sub and aud", `oaud "sts.amazonaws.com"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newCloud(t, fakeaws.Options{Life: time.Hour, TokenLife: 10 * time.Minute})
				first := cloud.get(t)
				c.spoil(cloud.Server, true)
				<-time.After(50 * time.Minute)
				if got := cloud.get(t); got.AccessKeyID != first.AccessKeyID {
					t.Error("other credentials without STS")
				}
				for _, want := range []string{"those in hand serve", c.want[0]} {
					if !strings.Contains(cloud.log.String(), want) {
						t.Errorf("the log lacks %q: %s", want, cloud.log)
					}
				}
				<-time.After(15 * time.Minute)
				var texts []string
				for range 20 {
					_, err := cloud.source.Retrieve(t.Context())
					if err == nil {
						t.Fatal("credentials that ended")
					}
					for _, want := range c.want {
						if !strings.Contains(err.Error(), want) {
							t.Fatalf("%q lacks %q", err, want)
						}
					}
					texts = append(texts, err.Error())
					<-time.After(time.Second)
				}
				for _, text := range texts {
					if text != texts[0] {
						t.Fatalf("the same trouble reads differently: %q, %q", texts[0], text)
					}
				}
				c.spoil(cloud.Server, false)
				<-time.After(refreshAgain)
				cloud.get(t)
			})
		})
	}
}

// TestRefusalIsNotHammered asks STS at most each five seconds while it refuses.
func TestRefusalIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, fakeaws.Options{TokenLife: time.Second}) // a token for each attempt
		c.Distrust(true)
		for range 600 {
			if _, err := c.source.Retrieve(t.Context()); err == nil {
				t.Fatal("credentials without trust")
			}
			<-time.After(100 * time.Millisecond)
		}
		if n := c.Tokens(); n > 13 {
			t.Errorf("%d attempts in a minute", n)
		}
	})
}

func TestSilentMetadataServer(t *testing.T) {
	t.Setenv("GCE_METADATA_HOST", "127.0.0.1:1")
	s, err := NewSource(t.Context(), AWS{RoleARN: testRole, Audience: testAudience, Region: "eu-west-1", Session: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Retrieve(t.Context())
	if err == nil || !strings.Contains(err.Error(), "outside Google Cloud") {
		t.Errorf("got %v", err)
	}
	var cause *named
	if !errors.As(err, &cause) || cause.err == nil {
		t.Error("the cause is lost")
	}
}

// TestUsualChain takes credentials where the AWS SDK finds them.
func TestUsualChain(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
	s, err := NewSource(t.Context(), AWS{Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Retrieve(t.Context())
	if err != nil || c.AccessKeyID != "AKIAENV" {
		t.Errorf("got %s (%v)", c.AccessKeyID, err)
	}
	token, err := s.Token(t.Context())
	if err != nil || token == "" {
		t.Errorf("no token: %v", err)
	}
}

func TestSessionName(t *testing.T) {
	for group, want := range map[string]string{
		"orders": "mskbridge-orders", "a b/ü": "mskbridge-a-b--", "x_+=,.@-": "mskbridge-x_+=,.@-",
		strings.Repeat("g", 249): "mskbridge-" + strings.Repeat("g", 54),
	} {
		if got := SessionName(group); got != want {
			t.Errorf("%q becomes %q, want %q", group, got, want)
		}
	}
}
