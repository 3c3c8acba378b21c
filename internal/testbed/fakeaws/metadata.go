package fakeaws

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// claims are those of an ID token of a service account. It carries its own id
// twice, as who it is about and as who asked for it.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Party    string `json:"azp"`
	Audience string `json:"aud"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

const issuer = "https://accounts.google.com"

// identity is the metadata server.
func (s *Server) identity(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Metadata-Flavor", "Google")
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	audience := r.URL.Query().Get("audience")
	switch {
	case down:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.Method != http.MethodGet:
		http.Error(w, "method", http.StatusMethodNotAllowed)
	case r.Header.Get("Metadata-Flavor") != "Google", r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "missing or wrong header", http.StatusForbidden)
	case audience == "":
		http.Error(w, "non-empty audience parameter required", http.StatusBadRequest)
	default:
		now := time.Now()
		token := s.token(claims{
			Issuer: issuer, Subject: Subject, Party: Subject, Audience: audience,
			Issued: now.Unix(), Expires: now.Add(s.options.TokenLife).Unix(),
		})
		s.set(func() { s.tokens = append(s.tokens, token) })
		_, _ = w.Write([]byte(token))
	}
}

// token signs claims.
func (s *Server) token(c claims) string {
	body, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(s.mac(text))
}

func (s *Server) mac(text string) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

var errToken = errors.New("no token of ours")

// read returns the claims of a token that we signed.
func (s *Server) read(token string) (c claims, err error) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return c, errToken
	}
	mac, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	if err != nil || !hmac.Equal(mac, s.mac(token[:i])) {
		return c, errToken
	}
	_, body, _ := strings.Cut(token[:i], ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return c, errToken
	}
	return c, json.Unmarshal(raw, &c)
}
