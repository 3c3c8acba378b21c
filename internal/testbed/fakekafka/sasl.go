package fakekafka

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	mechanismIAM   = "AWS_MSK_IAM"
	mechanismOAuth = "OAUTHBEARER"
)

// SASL makes brokers let in only whom AWS knows, as the IAM listener of Amazon
// MSK does: a handshake is a presigned URL whose signature is verified; the
// session ends with the credentials (KIP-368), after which any request but a new
// handshake closes the connection; the principal of a connection may not change.
type SASL struct {
	// Region is where the brokers are.
	Region string
	// Hosts are the names under which they may have been dialled.
	Hosts []string
	// Identity says who an access key belongs to.
	Identity func(accessKey string) (Identity, bool)
	// Session is the longest session; 0 bounds it by the credentials alone.
	Session time.Duration
	// Shortest is the shortest session granted; shorter ones are refused.
	Shortest time.Duration
	// Told, when set, hears of every handshake, from any goroutine.
	Told func(Handshake)
}

// Identity is what AWS knows about an access key.
type Identity struct {
	SecretKey, SessionToken string
	Principal               string
	Expires                 time.Time // zero: never
	Denied                  bool      // no permission kafka-cluster:Connect
}

// Handshake is one attempt to authenticate.
type Handshake struct {
	Principal string
	Again     bool          // renews the session of a connection
	Session   time.Duration // granted; 0 for one without an end
	Err       error         // nil when let in
}

// saslConn is one connection on the broker's side. It answers the handshake
// itself and hands on what an authenticated client asks. One goroutine reads.
type saslConn struct {
	net.Conn
	sasl *SASL

	write     sync.Mutex // one response at a time
	ready     []byte     // of a request that was let through
	mechanism string     // of the handshake that was begun, "" for none
	principal string     // "" until authenticated
	expires   time.Time  // of the session; zero for one without an end
	failing   error      // why an OAUTHBEARER client is about to be refused
}

func (c *saslConn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	return c.Conn.Write(p)
}

// Read gives the requests of an authenticated client.
func (c *saslConn) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		frame, err := readFrame(c.Conn)
		if err != nil {
			return 0, err
		}
		switch key := int16(binary.BigEndian.Uint16(frame[4:])); {
		case key == kmsg.SASLHandshake.Int16() || key == kmsg.SASLAuthenticate.Int16():
			if err := c.handshake(key, frame); err != nil {
				return 0, err
			}
		case key == kmsg.ApiVersions.Int16(), c.principal != "" && (c.expires.IsZero() || time.Now().Before(c.expires)):
			c.ready = frame
		default:
			c.Conn.Close()
			return 0, io.EOF
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// readFrame returns a request with its size in front.
func readFrame(r io.Reader) ([]byte, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(r, size); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size)
	if n < 8 || n > 64<<20 {
		return nil, errors.New("a frame of an impossible size")
	}
	frame := make([]byte, 4+n)
	copy(frame, size)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

func (c *saslConn) handshake(key int16, frame []byte) error {
	req := kmsg.RequestForKey(key)
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	r := kbin.Reader{Src: frame[12:]}
	r.NullableString() // client id
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := req.ReadFrom(r.Src); err != nil {
		return err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	switch req := req.(type) {
	case *kmsg.SASLHandshakeRequest:
		c.begin(req, resp.(*kmsg.SASLHandshakeResponse))
	case *kmsg.SASLAuthenticateRequest:
		c.authenticate(req, resp.(*kmsg.SASLAuthenticateResponse))
	}
	out := append([]byte{0, 0, 0, 0}, frame[8:12]...)
	if resp.IsFlexible() {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	_, err := c.Write(out)
	return err
}

func (c *saslConn) begin(req *kmsg.SASLHandshakeRequest, resp *kmsg.SASLHandshakeResponse) {
	resp.SupportedMechanisms = []string{mechanismIAM, mechanismOAuth}
	if !slices.Contains(resp.SupportedMechanisms, req.Mechanism) {
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		return
	}
	c.mechanism, c.failing = req.Mechanism, nil
}

// authenticate ends a handshake. A refused OAUTHBEARER client is first told why
// (RFC 7628), and fails when it has answered.
func (c *saslConn) authenticate(req *kmsg.SASLAuthenticateRequest, resp *kmsg.SASLAuthenticateResponse) {
	if c.mechanism == "" {
		resp.ErrorCode = kerr.IllegalSaslState.Code
		return
	}
	err := c.failing
	var told Handshake
	if err == nil {
		told, err = c.admit(req.SASLAuthBytes)
		told.Err = err
		if c.sasl.Told != nil {
			c.sasl.Told(told)
		}
		if err != nil && c.mechanism == mechanismOAuth {
			c.failing, resp.SASLAuthBytes = err, []byte(`{"status":"invalid_token"}`)
			return
		}
	}
	iam := c.mechanism == mechanismIAM
	if c.mechanism = ""; err != nil {
		text := "[7f1e6a52-0000-4000-8000-000000000001]: " + err.Error()
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &text
		return
	}
	resp.SessionLifetimeMillis = told.Session.Milliseconds()
	if iam {
		resp.SASLAuthBytes = []byte(`{"version":"2020_10_22","request-id":"7f1e6a52"}`)
	}
}

// admit verifies who is there and begins the session.
func (c *saslConn) admit(proof []byte) (Handshake, error) {
	h := Handshake{Again: c.principal != ""}
	read := readIAM
	if c.mechanism == mechanismOAuth {
		read = readOAuth
	}
	signed, err := read(proof)
	if err != nil {
		return h, err
	}
	if c.mechanism == mechanismIAM && !slices.Contains(c.sasl.Hosts, signed.host) {
		return h, fmt.Errorf("signed for host %s", signed.host)
	}
	if c.mechanism == mechanismOAuth && signed.host != "kafka."+c.sasl.Region+".amazonaws.com" {
		return h, fmt.Errorf("signed for host %s", signed.host)
	}
	now := time.Now()
	who, err := signed.verify(c.sasl.Region, c.sasl.Identity, now)
	if err != nil {
		return h, err
	}
	h.Principal = who.Principal
	if h.Again && who.Principal != c.principal {
		return h, fmt.Errorf("principals may not change during re-authentication, from %s to %s", c.principal, who.Principal)
	}
	h.Session = c.sasl.Session
	if left := who.Expires.Sub(now); !who.Expires.IsZero() && (h.Session == 0 || left < h.Session) {
		h.Session = left
	}
	if h.Session > 0 && h.Session < c.sasl.Shortest {
		return h, errors.New("session too short")
	}
	c.principal, c.expires = who.Principal, time.Time{}
	if h.Session > 0 {
		c.expires = now.Add(h.Session)
	}
	return h, nil
}

// readIAM takes the payload of AWS_MSK_IAM apart: the query of a presigned URL
// with its names in lower case.
func readIAM(proof []byte) (presigned, error) {
	p := presigned{query: map[string]string{}}
	var payload map[string]string
	if json.Unmarshal(proof, &payload) != nil || payload["version"] != "2020_10_22" {
		return p, errors.New("not a payload of version 2020_10_22")
	}
	p.host = payload["host"]
	for _, name := range signedNames {
		if v, ok := payload[strings.ToLower(name)]; ok {
			p.query[name] = v
		}
	}
	p.signature = payload["x-amz-signature"]
	return p, nil
}

// readOAuth takes the first message of OAUTHBEARER apart: its token is a
// presigned URL.
func readOAuth(proof []byte) (presigned, error) {
	p := presigned{query: map[string]string{}}
	token, ok := bytes.CutPrefix(proof, []byte("n,,\x01auth=Bearer "))
	if !ok {
		return p, errors.New("not a bearer token")
	}
	token, _, _ = bytes.Cut(token, []byte{1})
	raw, err := base64.RawURLEncoding.DecodeString(string(token))
	if err != nil {
		return p, errors.New("token is not base64url")
	}
	u, err := url.Parse(string(raw))
	if err != nil {
		return p, errors.New("token is not a URL")
	}
	p.host = u.Host
	for _, name := range signedNames {
		if v, ok := u.Query()[name]; ok {
			p.query[name] = v[0]
		}
	}
	p.signature = u.Query().Get("X-Amz-Signature")
	return p, nil
}
