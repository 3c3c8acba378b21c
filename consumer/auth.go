package consumer

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// ScramSHA256 is the other value of Auth.ScramMechanism, for clusters that do
// not offer SCRAM-SHA-512.
const ScramSHA256 = "SCRAM-SHA-256"

// Auth says how to authenticate to brokers; at most one function is set, none
// means no SASL. Each is asked at every handshake, that of a session renewed on
// a connection included, from several goroutines at once, and must end by
// itself: the handshake has no deadline while it waits.
type Auth struct {
	// IAM gives the credentials that sign an AWS_MSK_IAM handshake.
	IAM func(ctx context.Context) (AWSCredentials, error)
	// Token gives an OAUTHBEARER token.
	Token func(ctx context.Context) (string, error)
	// Scram gives user and password.
	Scram func(ctx context.Context) (user, password string, err error)
	// ScramMechanism is SCRAM-SHA-512, also when empty, or ScramSHA256.
	ScramMechanism string
	// Principal is who we are, for messages: a role, a user, the subject of a
	// certificate. Empty when nobody could say.
	Principal string
}

// AWSCredentials sign a handshake. No printer shows them.
type AWSCredentials struct{ AccessKey, SecretKey, SessionToken string }

// Format keeps every verb from showing the keys.
func (AWSCredentials) Format(w fmt.State, _ rune) { io.WriteString(w, "(set)") } //nolint:errcheck // fmt.State never fails

// credentialsError is that there was nothing to authenticate with. Its text is
// that of the function of Auth, which names what was asked for in vain.
type credentialsError struct{ error }

func (e credentialsError) Unwrap() error { return e.error }

// options are those of the Kafka client for a.
func (a *Auth) options() []kgo.Opt {
	m := a.mechanism()
	if m == nil {
		return nil
	}
	return []kgo.Opt{kgo.SASL(m)}
}

// mechanism returns how to authenticate, nil for not at all. AWS_MSK_IAM signs
// the host name that is dialled, for the region in that name or else in the
// environment variable AWS_REGION.
func (a *Auth) mechanism() sasl.Mechanism {
	switch {
	case a.IAM != nil:
		return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) {
			c, err := a.IAM(ctx)
			if err != nil {
				return aws.Auth{}, credentialsError{err}
			}
			return aws.Auth{AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken, UserAgent: clientID}, nil
		})
	case a.Token != nil:
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := a.Token(ctx)
			if err != nil {
				return oauth.Auth{}, credentialsError{err}
			}
			return oauth.Auth{Token: token}, nil
		})
	case a.Scram != nil:
		ask := func(ctx context.Context) (scram.Auth, error) {
			user, password, err := a.Scram(ctx)
			if err != nil {
				return scram.Auth{}, credentialsError{err}
			}
			return scram.Auth{User: user, Pass: password}, nil
		}
		if a.ScramMechanism == ScramSHA256 {
			return scram.Sha256(ask)
		}
		return scram.Sha512(ask)
	default:
		return nil
	}
}

// renewals tells of sessions that are renewed on their connection. A connection
// begins with ApiVersions; a handshake without it belongs to one that is there.
type renewals struct {
	tell func(fault.Event)

	mu    sync.Mutex    // guards fresh
	fresh map[int32]int // connections before their first handshake, by broker
}

// OnBrokerE2E is called for every answer, of many connections at once.
func (r *renewals) OnBrokerE2E(broker kgo.BrokerMetadata, key int16, answer kgo.BrokerE2E) {
	begins, renews := kmsg.ApiVersions.Int16(), kmsg.SASLHandshake.Int16()
	if key != begins && key != renews || answer.Err() != nil {
		return
	}
	r.mu.Lock()
	first := r.fresh[broker.NodeID] > 0
	switch {
	case key == begins:
		r.fresh[broker.NodeID]++
	case first:
		r.fresh[broker.NodeID]--
	}
	r.mu.Unlock()
	if key == renews && !first {
		r.tell(fault.Event{Kind: fault.Reauthentication, Partition: -1, Reason: fmt.Sprintf("renewing the session with broker %s", broker.Host)})
	}
}
