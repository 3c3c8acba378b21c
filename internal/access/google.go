package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/compute/metadata"
)

const (
	// tokenTimeout bounds one question to the metadata server, retries included.
	tokenTimeout = 5 * time.Second
	// tokenEarly is how long before its end an ID token is replaced.
	tokenEarly = 5 * time.Minute
)

// idToken asks Google's metadata server who this process runs as. The server
// itself caches, so a token may come with less than its full hour: its end is
// read from the token. (Package idtoken of the auth library takes an hour for
// granted, and remembers for ever that its first look for a server failed.)
type idToken struct {
	client   *metadata.Client
	audience string
}

// newIDToken returns a caching source of ID tokens. A nil client is the
// library's own, which never goes through a proxy.
func newIDToken(client *http.Client, audience string) *webIdentity {
	source := &idToken{metadata.NewWithOptions(&metadata.Options{Client: client}), audience}
	return &webIdentity{auth.NewCachedTokenProvider(source, &auth.CachedTokenProviderOptions{
		ExpireEarly: tokenEarly, DisableAsyncRefresh: true,
	})}
}

// Token implements auth.TokenProvider.
func (t *idToken) Token(ctx context.Context) (*auth.Token, error) {
	query := url.Values{"audience": {t.audience}, "format": {"full"}}
	raw, err := t.client.GetWithContext(ctx, "instance/service-accounts/default/identity?"+query.Encode())
	if err != nil {
		return nil, err
	}
	expiry, err := expiryOf(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the ID token: %w", err)
	}
	return &auth.Token{Value: raw, Expiry: expiry}, nil
}

// expiryOf reads the end of an ID token. Whether it is genuine is for AWS to say.
func expiryOf(raw string) (time.Time, error) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return time.Time{}, errors.New("it has not the three parts of a JWT")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, errors.New("its claims are not base64url")
	}
	var c struct {
		Exp int64 `json:"exp"`
	}
	if json.Unmarshal(claims, &c) != nil || c.Exp == 0 {
		return time.Time{}, errors.New("it has no end")
	}
	return time.Unix(c.Exp, 0), nil
}

// webIdentity hands ID tokens to the AWS SDK, which has no context to give.
type webIdentity struct{ tokens auth.TokenProvider }

func (w *webIdentity) GetIdentityToken() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout) //nolint:forbidigo // the SDK's interface has no context
	defer cancel()
	token, err := w.tokens.Token(ctx)
	if err != nil {
		return nil, &named{"Google's metadata server gives no ID token for this service account: " + metadataProblem(err), err}
	}
	return []byte(token.Value), nil
}

// metadataProblem says in words what the metadata server answered.
func metadataProblem(err error) string {
	if _, ok := errors.AsType[metadata.NotDefinedError](err); ok {
		return "none is attached"
	}
	if answer, ok := errors.AsType[*metadata.Error](err); ok {
		return fmt.Sprintf("it answers %d", answer.Code)
	}
	return "it does not answer; outside Google Cloud leave BRIDGE_ROLE_ARN out and give a profile with the role to the AWS SDK"
}
