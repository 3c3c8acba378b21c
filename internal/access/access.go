// Package access holds what it takes to be let in by the brokers: TLS material
// and the way to dial. TLS is always verified, from version 1.2 on; there is
// no setting that turns it off and no fall-back to plaintext.
package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

const (
	// dialTimeout bounds name lookup, connection and TLS handshake together.
	dialTimeout = 10 * time.Second
	// A broker that vanished without a word is noticed after idle + count x
	// interval = 45 s. The idle time also keeps the connection inside the
	// 10 minutes after which Cloud Run's network forgets it.
	keepAliveIdle     = 30 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
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

// Dialer returns a function that opens a connection to host:port and ends its
// TLS handshake, all within 10 s and the life of its context. A nil material
// is the choice of plaintext. The function is safe for concurrent use.
func Dialer(material *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	plain := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
	}}
	dial := plain.DialContext
	if material != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: material}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("dialling broker %s: %w", address, err)
		}
		return conn, nil
	}
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
