package access

import (
	"crypto/ecdsa"
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

// client writes a client certificate for a name, with its key, to two files.
func (a *authority) client(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, "CERTIFICATE", der)
	write(t, keyFile, "PRIVATE KEY", pkcs8(t, key))
}

func pkcs8(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func write(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestClientCertificateIsReadAgain renews the files between handshakes; in the
// middle, with a key that does not fit, the last pair is shown.
func TestClientCertificateIsReadAgain(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.client(t, "first", cert, key)
	material, err := TLS(a.file, "")
	if err != nil {
		t.Fatal(err)
	}
	subject, err := ClientCertificate(material, cert, key)
	if err != nil || subject != "CN=first" {
		t.Fatalf("subject %q (%v)", subject, err)
	}
	seen := make(chan string, 1)
	address := a.serveMutual(t, seen)
	show := func() string {
		t.Helper()
		conn, err := Dialer(material, policyFor(t, address))(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return <-seen
	}
	if got := show(); got != "first" {
		t.Errorf("shows %q", got)
	}
	a.client(t, "second", cert, filepath.Join(dir, "later.pem"))
	if got := show(); got != "first" {
		t.Errorf("shows %q while key and certificate do not fit", got)
	}
	if err := os.Rename(filepath.Join(dir, "later.pem"), key); err != nil {
		t.Fatal(err)
	}
	if got := show(); got != "second" {
		t.Errorf("shows %q after the renewal", got)
	}
}

// serveMutual wants a client certificate of a and tells whose it was.
func (a *authority) serveMutual(t *testing.T, seen chan<- string) string {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer(t, l, func(c net.Conn) {
		if err := c.(*tls.Conn).Handshake(); err != nil {
			seen <- err.Error()
			return
		}
		seen <- c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	})
	return l.Addr().String()
}

func TestClientCertificateRefusesFiles(t *testing.T) {
	_, err := ClientCertificate(&tls.Config{MinVersion: tls.VersionTLS12}, "/nowhere/cert.pem", "/nowhere/key.pem")
	if fault.Code(err) != fault.CodeUsage || !strings.Contains(err.Error(), "/nowhere/cert.pem") {
		t.Errorf("got %v with exit code %d", err, fault.Code(err))
	}
}

func TestExpiredCertificateIsNamed(t *testing.T) {
	a := newAuthority(t)
	key := newKey(t)
	over := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{"localhost"}, NotBefore: over.Add(-time.Hour), NotAfter: over,
	}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	answer(t, l, func(c net.Conn) { _ = c.(*tls.Conn).Handshake() })
	material, err := TLS(a.file, "")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, err = Dialer(material, policyFor(t, l.Addr().String()))(t.Context(), "tcp", "localhost:"+port)
	if err == nil || !strings.Contains(err.Error(), "localhost:"+port+": its certificate is valid from 2001-02-03T03:05:06Z to 2001-02-03T04:05:06Z: renew it") {
		t.Errorf("got %v", err)
	}
}

func TestNoTLSOnThePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer(t, l, func(c net.Conn) { _, _ = c.Write([]byte("220 not TLS\r\n\r\n")) })
	material, err := TLS("", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Dialer(material, policyFor(t, l.Addr().String()))(t.Context(), "tcp", l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "does not speak TLS on this port") {
		t.Errorf("got %v", err)
	}
}

func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	read := PasswordFile(path)
	if _, err := read(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: %v", err)
	}
	for _, c := range []struct{ content, want string }{
		{"s3cret\n", "s3cret"}, {"renewed\r\n", "renewed"}, {" with blanks ", " with blanks "}, {"\n", ""},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := read()
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q gives %q (%v)", c.content, got, err)
		}
	}
}
