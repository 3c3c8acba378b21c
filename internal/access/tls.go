package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// TLS returns the client side of TLS with the brokers. caFile is a PEM file
// with the only authorities to trust, "" for the system's or, where it has
// none, those that the program registered. serverName is what certificates must
// carry, "" for the dialled host name. Errors carry exit code 2.
func TLS(caFile, serverName string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if caFile == "" {
		return c, nil
	}
	roots, err := readRoots(caFile)
	if err != nil {
		return nil, fault.Exit(fault.CodeUsage, fmt.Errorf("reading CA file: %w", err))
	}
	c.RootCAs = roots
	return c, nil
}

// readRoots returns the certificates of a PEM file.
func readRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(path + " has no certificate in PEM form")
	}
	return pool, nil
}

// ClientCertificate makes c show the certificate of two PEM files to brokers
// that ask for one. The files are read at every handshake; while they do not
// fit together, as in the middle of a renewal, the last pair that did is shown.
// It returns the subject of the certificate; an error carries exit code 2.
func ClientCertificate(c *tls.Config, certFile, keyFile string) (subject string, err error) {
	p := &pair{certFile: certFile, keyFile: keyFile}
	first, err := p.read(nil)
	if err != nil {
		return "", fault.Exit(fault.CodeUsage, err)
	}
	c.GetClientCertificate = p.read
	return first.Leaf.Subject.String(), nil
}

// pair is a certificate with its key, in two files that somebody renews.
type pair struct {
	certFile, keyFile string

	mu   sync.Mutex // guards last
	last *tls.Certificate
}

func (p *pair) read(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	read, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.last = &read
	}
	if p.last == nil {
		return nil, fmt.Errorf("reading client certificate %s and key %s: %w", p.certFile, p.keyFile, err)
	}
	return p.last, nil
}
