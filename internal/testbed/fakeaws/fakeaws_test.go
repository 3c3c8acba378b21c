package fakeaws

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	role     = "arn:aws:iam::123456789012:role/bridge"
	audience = "sts.amazonaws.com"
)

func started(t *testing.T, o Options) (*Server, *http.Client) {
	t.Helper()
	o.Region, o.Role, o.Audience = "eu-west-1", role, audience
	s := New(o)
	if _, err := s.Start(); err != nil {
		t.Fatal(err)
	}
	c := s.Client(nil)
	t.Cleanup(func() { c.CloseIdleConnections(); s.Close() })
	return s, c
}

// do returns status and body.
func do(t *testing.T, c *http.Client, r *http.Request, err error) (int, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestMetadataServer(t *testing.T) {
	s, client := started(t, Options{})
	for _, c := range []struct {
		name, query, header string
		want                int
	}{
		{"good", "?audience=x&format=full", "Google", http.StatusOK},
		{"no header", "?audience=x", "", http.StatusForbidden},
		{"no audience", "?format=full", "Google", http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://metadata/computeMetadata/v1/instance/service-accounts/default/identity"+c.query, nil)
			if err == nil && c.header != "" {
				r.Header.Set("Metadata-Flavor", c.header)
			}
			status, body := do(t, client, r, err)
			if status != c.want {
				t.Fatalf("answers %d, want %d", status, c.want)
			}
			if read, err := s.read(body); status == http.StatusOK && (err != nil || read.Audience != "x" || read.Party != Subject) {
				t.Errorf("token has %+v (%v)", read, err)
			}
		})
	}
}

func TestSTS(t *testing.T) {
	s, client := started(t, Options{SessionName: "mskbridge-g"})
	for _, c := range []struct {
		name   string
		claims func(*claims)
		form   func(url.Values)
		host   string
		want   string // error code, "" for credentials
	}{
		{name: "good"},
		{name: "another audience", claims: func(c *claims) { c.Audience = "other" }, want: "AccessDenied"},
		{name: "another account", claims: func(c *claims) { c.Subject = "1" }, want: "AccessDenied"},
		{name: "another party", claims: func(c *claims) { c.Party = "1" }, want: "AccessDenied"},
		{name: "another issuer", claims: func(c *claims) { c.Issuer = "https://example.com" }, want: "InvalidIdentityToken"},
		{name: "expired", claims: func(c *claims) { c.Expires = time.Now().Unix() }, want: "ExpiredTokenException"},
		{name: "tampered", form: func(f url.Values) { f.Set("WebIdentityToken", f.Get("WebIdentityToken")+"x") }, want: "InvalidIdentityToken"},
		{name: "another role", form: func(f url.Values) { f.Set("RoleArn", role+"x") }, want: "AccessDenied"},
		{name: "another session name", form: func(f url.Values) { f.Set("RoleSessionName", "mskbridge-h") }, want: "AccessDenied"},
		{name: "illegal session name", form: func(f url.Values) { f.Set("RoleSessionName", "a b") }, want: "ValidationError"},
		{name: "too short", form: func(f url.Values) { f.Set("DurationSeconds", "60") }, want: "ValidationError"},
		{name: "global endpoint", host: "sts.amazonaws.com", want: "RegionDisabledException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := claims{Issuer: issuer, Subject: Subject, Party: Subject, Audience: audience, Expires: time.Now().Add(time.Hour).Unix()}
			if c.claims != nil {
				c.claims(&id)
			}
			form := url.Values{
				"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
				"RoleSessionName": {"mskbridge-g"}, "WebIdentityToken": {s.token(id)},
			}
			if c.form != nil {
				c.form(form)
			}
			host := c.host
			if host == "" {
				host = "sts.eu-west-1.amazonaws.com"
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+"/", strings.NewReader(form.Encode()))
			if err == nil {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			status, body := do(t, client, r, err)
			if (c.want == "") != (status == http.StatusOK) || !strings.Contains(body, "<Code>"+c.want+"</Code>") && c.want != "" {
				t.Errorf("answers %d with %s, want %q", status, body, c.want)
			}
		})
	}
	if got := s.Sessions(); len(got) != 1 {
		t.Errorf("credentials for %q, want one session", got)
	}
}
