package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
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

// Dialer returns a function that opens a connection to host:port, as far as
// the policy allows, and ends its TLS handshake, all within 10 s and the life
// of its context. A nil material is the choice of plaintext. The function is
// safe for concurrent use.
func Dialer(material *tls.Config, policy *Policy) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, err := dial(ctx, material, policy, network, address)
		if err != nil {
			return nil, &named{fmt.Sprintf("dialling broker %s: %s", address, explain(err)), err}
		}
		return conn, nil
	}
}

func dial(ctx context.Context, material *tls.Config, policy *Policy, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	listed, err := policy.host(host)
	if err != nil {
		// As an error of dialling it makes the client try its next broker.
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	plain := &net.Dialer{
		Control: policy.control(listed),
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		},
	}
	if material == nil {
		return plain.DialContext(ctx, network, address)
	}
	return (&tls.Dialer{NetDialer: plain, Config: material}).DialContext(ctx, network, address)
}

// explain says what a failed dial means and what to do about it.
func explain(err error) string {
	if refusal, ok := errors.AsType[*DialRefusedError](err); ok {
		return refusal.Error()
	}
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok && bad.Reason == x509.Expired {
		return fmt.Sprintf("its certificate is valid from %s to %s: renew it, or set the clock",
			bad.Cert.NotBefore.UTC().Format(time.RFC3339), bad.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return err.Error() + ": set BRIDGE_TLS_CA_FILE to the certificate of the authority"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return err.Error() + ": where brokers are reached under another name, set BRIDGE_TLS_SERVER_NAME"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "it does not speak TLS on this port: Amazon MSK does on 9094 (tls, mtls), 9096 (scram) and 9098 (iam)"
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok && lookup.IsNotFound {
		return "the name " + lookup.Name + " is not known here: private brokers need their zone in this network's DNS"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer: check the route and that the security group admits this network"
	}
	return err.Error()
}
