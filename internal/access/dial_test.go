package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// authority signs server certificates and knows its own PEM file.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{key: newKey(t), file: filepath.Join(t.TempDir(), "ca.pem")}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(a.file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// serve answers TLS handshakes as the named host until the test ends.
func (a *authority) serve(t *testing.T, host string, most uint16) string {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS10, MaxVersion: most, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer(t, l, func(c net.Conn) { _ = c.(*tls.Conn).Handshake() })
	return l.Addr().String()
}

// answer hands each connection of l to do, one after the other, until the test ends.
func answer(t *testing.T, l net.Listener, do func(net.Conn)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			do(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

func TestDial(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	localhost := ours.serve(t, "localhost", 0)
	broker := ours.serve(t, "b-1.example.com", 0)
	old := ours.serve(t, "localhost", tls.VersionTLS11)
	byName := func(address string) string { _, port, _ := net.SplitHostPort(address); return "localhost:" + port }
	for _, c := range []struct {
		name             string
		tls              bool
		caFile, override string
		address          string
		want             string // in the error, "" for none
	}{
		{"trusted", true, ours.file, "", byName(localhost), ""},
		{"another authority", true, others.file, "", byName(localhost), "unknown authority"},
		{"system roots", true, "", "", byName(localhost), "unknown authority"},
		{"wrong name", true, ours.file, "", byName(broker), "b-1.example.com"},
		{"name override", true, ours.file, "b-1.example.com", byName(broker), ""},
		{"wrong override", true, ours.file, "b-2.example.com", byName(broker), "b-2.example.com"},
		{"TLS 1.1", true, ours.file, "", byName(old), "protocol version"},
		{"plaintext", false, "", "", localhost, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var material *tls.Config
			if c.tls {
				var err error
				if material, err = TLS(c.caFile, c.override); err != nil {
					t.Fatal(err)
				}
			}
			conn, err := Dialer(material, policyFor(t, c.address))(t.Context(), "tcp", c.address)
			if conn != nil {
				defer conn.Close()
			}
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if _, isTLS := conn.(*tls.Conn); err == nil && isTLS != c.tls {
				t.Errorf("TLS %v, want %v", isTLS, c.tls)
			}
		})
	}
}

// TestHandshakeEndsWithContext dials a server that accepts and says nothing.
func TestHandshakeEndsWithContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, over := make(chan struct{}), make(chan struct{})
	answer(t, l, func(net.Conn) { close(accepted); <-over })
	defer close(over)
	material, err := TLS("", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-accepted; cancel() }()
	if _, err := Dialer(material, policyFor(t, l.Addr().String()))(ctx, "tcp", l.Addr().String()); err == nil {
		t.Error("handshake with a silent server ended well")
	}
}

func TestTLSRefusesCAFile(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"missing": "/nowhere/ca.pem", "no certificate": empty} {
		t.Run(name, func(t *testing.T) {
			_, err := TLS(file, "")
			if fault.Code(err) != fault.CodeUsage || !strings.Contains(err.Error(), file) {
				t.Errorf("got %v with exit code %d", err, fault.Code(err))
			}
		})
	}
}

// policyFor is that of a configuration with one bootstrap broker.
func policyFor(t *testing.T, broker string, allow ...string) *Policy {
	t.Helper()
	p, err := NewPolicy([]string{broker}, allow)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
