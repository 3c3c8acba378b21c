package fakekafka

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signature Version 4 of a query, verified from its public description: "Create
// a signed AWS API request" and "Authenticating requests: using query
// parameters" in AWS's documentation. It shares no code with the signers.

// signedNames are the parameters that a signature of kafka-cluster covers.
var signedNames = []string{
	"Action", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date",
	"X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-SignedHeaders",
}

const (
	mostSkew    = 5 * time.Minute  // of a signer's clock ahead of ours
	mostExpires = 15 * time.Minute // that a signature may ask for
)

// presigned is a URL with a signature.
type presigned struct {
	host      string
	query     map[string]string // signedNames that are there
	signature string            // hex
}

// verify says whose signature it is, or why it counts for nothing.
func (p presigned) verify(region string, identify func(string) (Identity, bool), now time.Time) (Identity, error) {
	q := p.query
	if q["Action"] != "kafka-cluster:Connect" || q["X-Amz-Algorithm"] != "AWS4-HMAC-SHA256" || q["X-Amz-SignedHeaders"] != "host" {
		return Identity{}, errors.New("not a signature of kafka-cluster:Connect over the host")
	}
	scope := strings.Split(q["X-Amz-Credential"], "/")
	if len(scope) != 5 || scope[3] != "kafka-cluster" || scope[4] != "aws4_request" {
		return Identity{}, errors.New("credential scope is not that of kafka-cluster")
	}
	if scope[2] != region {
		return Identity{}, fmt.Errorf("credential should be scoped to a valid region, not %s", scope[2])
	}
	at, err := time.Parse("20060102T150405Z", q["X-Amz-Date"])
	if err != nil || scope[1] != q["X-Amz-Date"][:8] {
		return Identity{}, errors.New("date is not that of the credential scope")
	}
	seconds, err := strconv.Atoi(q["X-Amz-Expires"])
	valid := time.Duration(seconds) * time.Second
	if err != nil || valid <= 0 || valid > mostExpires {
		return Identity{}, errors.New("validity is not up to 900 seconds")
	}
	if now.After(at.Add(valid)) || now.Before(at.Add(-mostSkew)) {
		return Identity{}, fmt.Errorf("signature expired: %s is not within its validity", now.UTC().Format(time.RFC3339))
	}
	who, ok := identify(scope[0])
	switch {
	case !ok || !who.Expires.IsZero() && !now.Before(who.Expires):
		return Identity{}, errors.New("the security token included in the request is invalid or expired")
	case q["X-Amz-Security-Token"] != who.SessionToken:
		return Identity{}, errors.New("the security token included in the request is invalid")
	case !hmac.Equal([]byte(p.signature), []byte(p.sign(who.SecretKey, scope))):
		return Identity{}, errors.New("the request signature we calculated does not match the signature you provided")
	case who.Denied:
		return Identity{}, errors.New("access denied")
	}
	return who, nil
}

// sign computes the signature that the secret gives.
func (p presigned) sign(secret string, scope []string) string {
	parameters := make([]string, 0, len(p.query))
	for name, value := range p.query {
		parameters = append(parameters, escape(name)+"="+escape(value))
	}
	slices.Sort(parameters)
	nothing := sha256.Sum256(nil)
	canonical := strings.Join([]string{
		"GET", "/", strings.Join(parameters, "&"), "host:" + p.host, "", "host", hex.EncodeToString(nothing[:]),
	}, "\n")
	hashed := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{
		"AWS4-HMAC-SHA256", p.query["X-Amz-Date"], strings.Join(scope[1:], "/"), hex.EncodeToString(hashed[:]),
	}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range append(scope[1:5:5], text) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key)
}

// escape encodes all but the unreserved characters of RFC 3986.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
