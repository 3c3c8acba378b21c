package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/mskbridge/mskbridge/internal/access"
)

// dialAdvice says why a broker could not be reached, and what to do.
func dialAdvice(err error) (finding, do string) {
	var name *net.DNSError
	var policy *access.DialRefusedError
	var slow net.Error
	switch {
	case errors.As(err, &policy):
		return oneLine(policy), "add the broker to BRIDGE_DIAL_ALLOW, if it is one; else find out who advertises this address"
	case errors.As(err, &name):
		return "the name " + name.Name + " cannot be resolved: " + name.Err, "forward the brokers' domain from the VPC's DNS to AWS, see docs/access.md"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens on this port", "check the port: on MSK 9092 is plaintext, 9094 tls and mtls, 9096 scram, 9098 iam"
	}
	if finding, do := tlsAdvice(err); finding != "" {
		return finding, do
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return "no connection in time", "let egress reach it (route, VPN, Direct VPC egress) and the cluster's security group admit our addresses; with TLS, check that the port speaks it"
	}
	return oneLine(err), "check route, firewall and address"
}

// tlsAdvice is "" for what is not about TLS.
func tlsAdvice(err error) (finding, do string) {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert *net.OpError
	switch {
	case errors.As(err, &authority):
		return "the certificate is of an authority that is not trusted", "set BRIDGE_TLS_CA_FILE to the authority of the brokers, or unset it for public ones such as Amazon's"
	case errors.As(err, &host):
		return oneLine(host), "use the broker's own name in BRIDGE_BROKERS, or set BRIDGE_TLS_SERVER_NAME to a name in the certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired: it was valid until " + invalid.Cert.NotAfter.UTC().Format("2006-01-02"), "renew the certificate of the broker, or set our clock"
	case errors.As(err, &invalid):
		return oneLine(invalid), "renew the certificate of the broker"
	case errors.As(err, &record), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "the port does not speak TLS", "use a TLS port: on MSK 9094 tls and mtls, 9096 scram, 9098 iam"
	case errors.As(err, &alert) && alert.Op == "remote error": // how crypto/tls names an alert of the other side
		return "the broker ends the TLS handshake: " + oneLine(alert), "set BRIDGE_AUTH=mtls with BRIDGE_TLS_CERT_FILE and BRIDGE_TLS_KEY_FILE of a certificate that the cluster trusts"
	default:
		return "", ""
	}
}
