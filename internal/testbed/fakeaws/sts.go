package fakeaws

import (
	"encoding/xml"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const namespace = "https://sts.amazonaws.com/doc/2011-06-15/"

var sessionName = regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)

// failure is what STS answers instead of credentials.
type failure struct {
	XMLName xml.Name `xml:"ErrorResponse"`
	Space   string   `xml:"xmlns,attr"`
	Status  int      `xml:"-"`
	Type    string   `xml:"Error>Type"`
	Code    string   `xml:"Error>Code"`
	Message string   `xml:"Error>Message"`
	Request string   `xml:"RequestId"`
}

func refuse(status int, code, message string) *failure {
	return &failure{Space: namespace, Status: status, Type: "Sender", Code: code, Message: message, Request: "00000000-0000-4000-8000-000000000000"}
}

// success is an answer with credentials.
type success struct {
	XMLName    xml.Name `xml:"AssumeRoleWithWebIdentityResponse"`
	Space      string   `xml:"xmlns,attr"`
	Key        string   `xml:"AssumeRoleWithWebIdentityResult>Credentials>AccessKeyId"`
	Secret     string   `xml:"AssumeRoleWithWebIdentityResult>Credentials>SecretAccessKey"`
	Token      string   `xml:"AssumeRoleWithWebIdentityResult>Credentials>SessionToken"`
	Expiration string   `xml:"AssumeRoleWithWebIdentityResult>Credentials>Expiration"`
	Arn        string   `xml:"AssumeRoleWithWebIdentityResult>AssumedRoleUser>Arn"`
	ID         string   `xml:"AssumeRoleWithWebIdentityResult>AssumedRoleUser>AssumedRoleId"`
	Request    string   `xml:"ResponseMetadata>RequestId"`
}

// assume is STS.
func (s *Server) assume(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/xml")
	if f := s.check(r); f != nil {
		w.WriteHeader(f.Status)
		_ = xml.NewEncoder(w).Encode(f)
		return
	}
	session := r.PostForm.Get("RoleSessionName")
	role := s.options.Role
	principal := strings.Replace(strings.Replace(role, ":iam:", ":sts:", 1), ":role/", ":assumed-role/", 1) + "/" + session
	key, who := s.Issue(principal, s.options.Life)
	s.set(func() { s.sessions = append(s.sessions, session) })
	_ = xml.NewEncoder(w).Encode(success{
		Space: namespace, Key: key, Secret: who.SecretKey, Token: who.SessionToken,
		Expiration: who.Expires.UTC().Format(time.RFC3339), Arn: principal, ID: "AROA:" + session, Request: "0",
	})
}

// check says what is wrong with a request, nil for nothing.
func (s *Server) check(r *http.Request) *failure {
	s.mu.Lock()
	down, distrust := s.down, s.distrust
	s.mu.Unlock()
	if down {
		return refuse(http.StatusServiceUnavailable, "ServiceUnavailable", "down")
	}
	if r.ParseForm() != nil || r.PostForm.Get("Version") != "2011-06-15" {
		return refuse(http.StatusBadRequest, "InvalidParameterValue", "not a request of version 2011-06-15")
	}
	f := r.PostForm
	switch {
	case f.Get("Action") != "AssumeRoleWithWebIdentity":
		return refuse(http.StatusBadRequest, "InvalidAction", "only AssumeRoleWithWebIdentity")
	case r.Header.Get("Authorization") != "":
		return refuse(http.StatusBadRequest, "IncompleteSignature", "this call carries no signature")
	case r.Host != "sts."+s.options.Region+".amazonaws.com" && !strings.HasPrefix(r.Host, "127.0.0.1:"):
		return refuse(http.StatusBadRequest, "RegionDisabledException", "not the endpoint of the region: "+r.Host)
	case !sessionName.MatchString(f.Get("RoleSessionName")):
		return refuse(http.StatusBadRequest, "ValidationError", "RoleSessionName")
	}
	if d := f.Get("DurationSeconds"); d != "" {
		if n, err := strconv.Atoi(d); err != nil || n < 900 || n > 43200 {
			return refuse(http.StatusBadRequest, "ValidationError", "DurationSeconds")
		}
	}
	c, err := s.read(f.Get("WebIdentityToken"))
	switch {
	case err != nil || c.Issuer != issuer:
		return refuse(http.StatusBadRequest, "InvalidIdentityToken", "Couldn't verify the token")
	case time.Now().Unix() >= c.Expires:
		return refuse(http.StatusBadRequest, "ExpiredTokenException", "Token expired")
	case distrust, f.Get("RoleArn") != s.options.Role,
		c.Subject != Subject, c.Party != Subject, c.Audience != s.options.Audience,
		s.options.SessionName != "" && f.Get("RoleSessionName") != s.options.SessionName:
		return refuse(http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
	}
	return nil
}
