package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/mskbridge/mskbridge/internal/fault"
)

const (
	// refreshTimeout bounds one refresh, retries included.
	refreshTimeout = 15 * time.Second
	// awsCallTimeout bounds one HTTP request to AWS.
	awsCallTimeout = 5 * time.Second
	// refreshAgain is how soon a failed refresh is tried again.
	refreshAgain = 5 * time.Second
	// staleFor is how long credentials whose refresh failed count as fresh, while
	// they are valid.
	staleFor = 30 * time.Second
	// refreshEarly is the part of an hour that is left when credentials that are
	// valid for an hour are replaced; others in proportion, so a third of their
	// life at most and, by jitter, a quarter at least. The Kafka client renews a
	// session, which lasts as long as the credentials did at its start, when 5 %
	// of it are left: it must get new ones then, or its sessions shrink to nothing.
	refreshEarly  = 20 * time.Minute
	refreshJitter = 0.25
)

// AWS says how to become somebody in AWS.
type AWS struct {
	// RoleARN is assumed with the ID token of the Google service account; ""
	// leaves it to the AWS SDK to find credentials where it usually does.
	RoleARN string
	// Audience is the audience of the ID token.
	Audience string
	// Region is where STS is asked, and whose brokers are signed for by Token.
	Region string
	// Session is the role session name. It is part of the principal, which may
	// not change while a connection lives: all instances use the same, always.
	Session string
	// HTTP carries requests to STS and the metadata server; nil for clients with
	// timeouts of their own.
	HTTP *http.Client
	// Log is told of a failed refresh while older credentials still serve.
	Log *slog.Logger
}

// Source is where the AWS credentials of the process come from. There is one:
// many handshakes at once make one request.
type Source struct {
	cache     *aws.CredentialsCache
	region    string
	principal string
}

// NewSource returns a source. It asks nobody yet; an error, which carries exit
// code 2, comes from the files and variables that the AWS SDK reads.
func NewSource(ctx context.Context, o AWS) (*Source, error) {
	var client config.HTTPClient = awshttp.NewBuildableClient().WithTimeout(awsCallTimeout)
	if o.HTTP != nil {
		client = o.HTTP
	}
	load := []func(*config.LoadOptions) error{
		config.WithRegion(o.Region), config.WithHTTPClient(client), config.WithRetryMaxAttempts(3),
	}
	if o.RoleARN != "" {
		load = append(load, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fault.Exit(fault.CodeUsage, fmt.Errorf("reading the AWS settings: %w", err))
	}
	p := &provider{role: o.RoleARN, audience: o.Audience, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler))}
	s := &Source{region: cmp.Or(o.Region, cfg.Region)}
	if o.RoleARN == "" {
		s.principal = "the AWS principal of the environment"
		p.fetch = uncached(cfg.Credentials)
	} else {
		s.principal = o.RoleARN + "/" + o.Session
		p.fetch = stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(cfg), o.RoleARN, newIDToken(o.HTTP, o.Audience),
			func(w *stscreds.WebIdentityRoleOptions) { w.RoleSessionName = o.Session }).Retrieve
	}
	s.cache = aws.NewCredentialsCache(p, func(c *aws.CredentialsCacheOptions) {
		c.ExpiryWindow, c.ExpiryWindowJitterFrac = refreshEarly, refreshJitter
	})
	return s, nil
}

// uncached makes the SDK's own cache ask anew: it would give the same
// credentials until they end.
func uncached(p aws.CredentialsProvider) func(context.Context) (aws.Credentials, error) {
	return func(ctx context.Context) (aws.Credentials, error) {
		if c, ok := p.(*aws.CredentialsCache); ok {
			c.Invalidate()
		}
		return p.Retrieve(ctx)
	}
}

// Principal is who the credentials are for, as far as it is known beforehand.
func (s *Source) Principal() string { return s.principal }

// Retrieve returns credentials that are valid for a while yet, within 15 s.
func (s *Source) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := s.cache.Retrieve(ctx)
	if name, ok := errors.AsType[*named](err); ok {
		return c, name // without the SDK's own words around it
	}
	return c, err
}

// Token returns a signed OAUTHBEARER token for the brokers of the region,
// whatever names they are reached by.
func (s *Source) Token(ctx context.Context) (string, error) {
	token, _, err := signer.GenerateAuthTokenFromCredentialsProvider(ctx, s.region, s)
	if name, ok := errors.AsType[*named](err); ok {
		return "", name
	}
	return token, err
}

// SessionName returns a legal role session name for a consumer group: 2 to 64
// letters, digits and _+=,.@- characters.
func SessionName(group string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_+=,.@-", r)) {
			return r
		}
		return '-'
	}, "mskbridge-"+group)
	return name[:min(len(name), 64)]
}

// provider fetches credentials for the cache, one fetch at a time, and decides
// when they are to be replaced.
type provider struct {
	fetch          func(context.Context) (aws.Credentials, error)
	role, audience string
	log            *slog.Logger

	mu     sync.Mutex // guards what follows
	until  time.Time  // true end of the last credentials
	failed error      // of the last fetch
	again  time.Time  // nothing is fetched before
}

// Retrieve implements aws.CredentialsProvider.
func (p *provider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil && time.Now().Before(p.again) {
		return aws.Credentials{}, p.failed
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	c, err := p.fetch(ctx)
	if err != nil {
		p.failed, p.again = p.name(err), time.Now().Add(refreshAgain)
		return c, p.failed
	}
	p.failed, p.until = nil, c.Expires
	return c, nil
}

// HandleFailToRefresh goes on with credentials that are still valid.
func (p *provider) HandleFailToRefresh(_ context.Context, last aws.Credentials, err error) (aws.Credentials, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !last.HasKeys() || !now.Before(p.until) {
		return aws.Credentials{}, err
	}
	p.log.Warn("refreshing the AWS credentials: those in hand serve until they end", slog.Time("end", p.until), slog.Any("error", err))
	last.Expires = now.Add(staleFor)
	if p.until.Before(last.Expires) {
		last.Expires = p.until
	}
	return last, nil
}

// AdjustExpiresBy makes the cache replace credentials early, in proportion to
// their life: by is meant for an hour.
func (p *provider) AdjustExpiresBy(c aws.Credentials, by time.Duration) (aws.Credentials, error) {
	life := max(0, time.Until(c.Expires))
	c.Expires = c.Expires.Add(time.Duration(float64(by) * life.Hours()))
	return c, nil
}

// name says what a failed fetch means and what to do about it.
func (p *provider) name(err error) error {
	if name, ok := errors.AsType[*named](err); ok {
		return name
	}
	who := "AWS"
	if p.role != "" {
		who = "AWS STS for role " + p.role
	}
	clause := who + " does not answer: check that its endpoint can be reached"
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		clause = fmt.Sprintf("%s answers %s: %s", who, answer.ErrorCode(), answer.ErrorMessage())
		switch answer.ErrorCode() {
		case "AccessDenied":
			clause += fmt.Sprintf("; its trust policy must allow sts:AssumeRoleWithWebIdentity to accounts.google.com with sub and aud the numeric id of the service account, and oaud %q", p.audience)
		case "ExpiredTokenException", "InvalidIdentityToken", "SignatureDoesNotMatch":
			clause += "; check the clock"
		}
	} else if p.role == "" {
		clause = "the AWS SDK finds no credentials: set BRIDGE_ROLE_ARN on Google Cloud, or a profile, variables or an instance role elsewhere"
	}
	return &named{clause, err}
}
