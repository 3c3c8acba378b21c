//go:build synctests

package consumer

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/aws"

	"github.com/mskbridge/mskbridge/internal/access"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/fakeaws"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

const (
	iamRole      = "arn:aws:iam::123456789012:role/bridge"
	iamAudience  = "sts.amazonaws.com"
	iamPrincipal = "arn:aws:sts::123456789012:assumed-role/bridge/mskbridge-bridge"
	mskHost      = "b-1.test.c2.kafka.eu-west-1.amazonaws.com"
)

// iamWorld is a world whose brokers are those of MSK with IAM: credentials live
// for a minute, sessions for half of one, and those below five seconds are
// refused. Members get their credentials without a key.
type iamWorld struct {
	*world
	aws *fakeaws.Server
	log *lockedBuffer // what client and credentials had to say

	mu     sync.Mutex // guards what follows
	heard  []fakekafka.Handshake
	stamps map[int32]time.Time // last publish by partition of orders
	gap    time.Duration       // longest between two publishes of a partition
}

func newIAMWorld(t *testing.T, oauth bool) *iamWorld {
	t.Helper()
	t.Setenv("AWS_CA_BUNDLE", "") // of whoever runs the tests; the SDK would want to add it to the client
	i := &iamWorld{log: &lockedBuffer{}, stamps: map[int32]time.Time{}}
	log := slog.New(slog.NewTextHandler(i.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	i.aws = fakeaws.New(fakeaws.Options{Region: "eu-west-1", Role: iamRole, Audience: iamAudience, Life: time.Minute, SessionName: "mskbridge-bridge"})
	network := &kfake.VirtualNetwork{}
	l, err := network.Listen("tcp", "localhost:80")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- i.aws.Serve(l) }()
	client := i.aws.Client(network.DialContext)
	t.Cleanup(func() {
		client.CloseIdleConnections()
		i.aws.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	i.world = newWorldOn(t, fakekafka.Options{
		Brokers: 3, Network: network,
		Advertise: func(at string) string {
			_, port, _ := net.SplitHostPort(at)
			return net.JoinHostPort(mskHost, port)
		},
		SASL: &fakekafka.SASL{
			Region: "eu-west-1", Hosts: []string{mskHost}, Identity: i.identity,
			Session: 30 * time.Second, Shortest: 5 * time.Second, Told: i.told,
		},
	}, "orders")
	key, who := i.aws.Issue("producer", 24*time.Hour)
	i.trust = []kgo.Opt{kgo.SASL(aws.Auth{AccessKey: key, SecretKey: who.SecretKey, SessionToken: who.SessionToken}.AsManagedStreamingIAMMechanism())}
	source, err := access.NewSource(t.Context(), access.AWS{
		RoleARN: iamRole, Audience: iamAudience, Region: "eu-west-1", Session: access.SessionName(testGroup), HTTP: client, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	i.adapt = func(o *Options) {
		o.Auth.Principal, o.ClientLog = source.Principal(), log
		if oauth {
			o.Auth.Token = source.Token
			return
		}
		o.Auth.IAM = func(ctx context.Context) (AWSCredentials, error) {
			c, err := source.Retrieve(ctx)
			return AWSCredentials{c.AccessKeyID, c.SecretAccessKey, c.SessionToken}, err
		}
	}
	return i
}

// lockedBuffer is written by many goroutines.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}
func (b *lockedBuffer) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.buf.String() }

// wantNoSecret looks for what was handed out in everything that people can see.
func (i *iamWorld) wantNoSecret(m *member) {
	i.t.Helper()
	m.mu.Lock()
	seen := fmt.Sprintf("%s %+v %+v %+v", i.log, m.events, m.Snapshot(), m.opts.Auth)
	m.mu.Unlock()
	for _, secret := range i.aws.Secrets() {
		if strings.Contains(seen, secret) {
			i.t.Errorf("secret %q was shown", secret)
		}
	}
	if !strings.Contains(seen, iamRole) || i.log.String() == "" {
		i.t.Error("nothing to look through")
	}
}

// identity lets the producer in while the role is denied.
func (i *iamWorld) identity(key string) (fakekafka.Identity, bool) {
	who, ok := i.aws.Identity(key)
	who.Denied = who.Denied && who.Principal != "producer"
	return who, ok
}

func (i *iamWorld) told(h fakekafka.Handshake) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heard = append(i.heard, h)
}

// watch is a script that measures how long a partition is without a publish.
func (i *iamWorld) watch(q *request) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range q.batch.Spans {
		if last, ok := i.stamps[s.Partition]; ok {
			i.gap = max(i.gap, time.Since(last))
		}
		i.stamps[s.Partition] = time.Now()
	}
	return 20 * time.Millisecond
}

func (i *iamWorld) longest() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.gap
}

// handshakes counts the bridge's handshakes and fails for any that was refused
// or that another principal made.
func (i *iamWorld) handshakes(t *testing.T) (first, again int) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, h := range i.heard {
		switch {
		case h.Principal == "producer":
			continue
		case h.Err != nil:
			t.Errorf("a handshake was refused: %v", h.Err)
		case h.Principal != iamPrincipal:
			t.Errorf("principal %s", h.Principal)
		case h.Again:
			again++
		default:
			first++
		}
	}
	return first, again
}

// TestSessionsAreRenewedUnnoticed runs for ten minutes: no handshake is refused,
// the principal never changes, and no partition waits a second longer than the
// one second in which it gets a record.
func TestSessionsAreRenewedUnnoticed(t *testing.T) {
	for name, oauth := range map[string]bool{"AWS_MSK_IAM": false, "OAUTHBEARER": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newIAMWorld(t, oauth)
				m := w.join(memberSizes(), OrderingNone, w.watch, "orders")
				w.within(time.Minute, "it has all partitions", func() bool { return m.partitions() == 3 })
				stop := w.trickle("orders")
				time.Sleep(15 * time.Second) // until the new group has a commit and a look has seen it
				for range 600 {
					time.Sleep(time.Second)
					if r := m.reason("") + m.reason("orders"); r != "" {
						t.Errorf("trouble: %s", r)
						break
					}
				}
				stop()
				w.within(10*time.Second, "all is delivered", w.allCommitted("orders"))
				w.wantAll()
				w.wantNoSecret(m)
				first, again := w.handshakes(t)
				if again < 40 {
					t.Errorf("sessions were renewed %d times, want at least twice a minute on two connections", again)
				}
				gap := w.longest()
				if gap > 2*time.Second {
					t.Errorf("a partition waited %v", gap)
				}
				if n := m.count(fault.Reauthentication); n < again/2 || n > again {
					t.Errorf("%d events of %d renewals", n, again)
				}
				t.Logf("%d connections, %d renewals, %d sessions at STS, longest wait of a partition %v", first, again, len(w.aws.Sessions()), gap)
			})
		})
	}
}

// TestAccessIsLostAndComesBack takes away, for five minutes, what a handshake
// needs. The reason names it, and all is delivered without a restart.
func TestAccessIsLostAndComesBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*fakeaws.Server, bool)
		want  []string
	}{
		{"STS and metadata server", (*fakeaws.Server).Down, []string{"AWS STS for role " + iamRole, "ServiceUnavailable"}},
		{"trust policy", (*fakeaws.Server).Distrust, []string{"AWS STS for role " + iamRole, "AccessDenied", "sub and aud", "oaud"}},
		{"permission to connect", (*fakeaws.Server).Deny, []string{"brokers refuse " + iamRole, "access denied", "kafka-cluster:Connect"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newIAMWorld(t, false)
				m := w.join(memberSizes(), OrderingNone, w.watch, "orders")
				stop := w.trickle("orders")
				w.within(time.Minute, "it has all partitions", func() bool { return m.partitions() == 3 })
				time.Sleep(30 * time.Second)
				c.spoil(w.aws, true)
				named := w.within(2*time.Minute, "the trouble is named", func() bool { return m.reason("") != "" })
				for left := 5*time.Minute - named; left > 0; left -= time.Second {
					time.Sleep(time.Second)
				}
				reason := m.reason("")
				for _, want := range c.want {
					if !strings.Contains(reason, want) {
						t.Errorf("the reason is %q, which lacks %q", reason, want)
					}
				}
				if n := m.count(fault.AccessRefused); n == 0 || n > 6 {
					t.Errorf("%d events of one lasting trouble", n)
				}
				c.spoil(w.aws, false)
				stop()
				took := w.within(time.Minute, "all is delivered", w.allCommitted("orders"))
				w.within(time.Minute, "the trouble is over", func() bool { return m.reason("") == "" })
				if !m.has(fault.AccessGranted) {
					t.Error("no event says that access is back")
				}
				w.wantAll()
				w.wantNoSecret(m)
				t.Logf("named after %v: %s; all delivered %v after the repair", named, reason, took)
			})
		})
	}
}
