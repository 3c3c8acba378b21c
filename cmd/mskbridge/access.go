package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/access"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
)

// dialFunc opens a connection to a broker.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// brokerAccess makes the ways to reach the brokers and to be let in, as the
// configuration says. It asks nobody for credentials yet. Errors carry exit
// code 2.
func brokerAccess(ctx context.Context, cfg *config.Config, log *slog.Logger) (dialFunc, consumer.Auth, error) {
	auth, err := authentication(ctx, cfg, log)
	if err != nil {
		return nil, auth, err
	}
	policy, err := access.NewPolicy(cfg.Brokers, cfg.DialAllow)
	if err != nil {
		return nil, auth, fault.Exit(fault.CodeUsage, err)
	}
	if cfg.Auth == config.AuthPlaintext {
		return access.Dialer(nil, policy), auth, nil
	}
	material, err := material(cfg, &auth)
	if err != nil {
		return nil, auth, err
	}
	return access.Dialer(material, policy), auth, nil
}

// material is the client's side of TLS; with mtls it tells auth whose
// certificate it shows.
func material(cfg *config.Config, auth *consumer.Auth) (*tls.Config, error) {
	m, err := access.TLS(cfg.TLSCAFile, cfg.TLSServerName)
	if err != nil || cfg.Auth != config.AuthMTLS {
		return m, err
	}
	auth.Principal, err = access.ClientCertificate(m, cfg.TLSCertFile, cfg.TLSKeyFile)
	return m, err
}

// authentication is the SASL side of the configured way, the zero value for
// those that have none.
func authentication(ctx context.Context, cfg *config.Config, log *slog.Logger) (consumer.Auth, error) {
	switch cfg.Auth {
	case config.AuthScram:
		return scram(cfg), nil
	case config.AuthIAM, config.AuthIAMOAuth:
	default:
		return consumer.Auth{}, nil
	}
	source, err := access.NewSource(ctx, access.AWS{
		RoleARN: cfg.RoleARN, Audience: cfg.RoleAudience, Region: cfg.Region,
		Session: access.SessionName(cfg.Group), Log: log,
	})
	if err != nil {
		return consumer.Auth{}, err
	}
	auth := consumer.Auth{Principal: source.Principal()}
	if cfg.Auth == config.AuthIAMOAuth {
		auth.Token = source.Token
		return auth, nil
	}
	auth.IAM = func(ctx context.Context) (consumer.AWSCredentials, error) {
		c, err := source.Retrieve(ctx)
		return consumer.AWSCredentials{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken}, err
	}
	return auth, nil
}

// scram gives the password of the configuration, or of a file that is read again
// at each handshake.
func scram(cfg *config.Config) consumer.Auth {
	password := func() (string, error) { return cfg.ScramPassword.Reveal(), nil } //nolint:unparam // reading a file may fail
	if cfg.ScramPasswordFile != "" {
		password = access.PasswordFile(cfg.ScramPasswordFile)
	}
	auth := consumer.Auth{
		Principal: "User:" + cfg.ScramUser,
		Scram: func(context.Context) (string, string, error) {
			p, err := password()
			return cfg.ScramUser, p, err
		},
	}
	if cfg.ScramMechanism == config.ScramSHA256 {
		auth.ScramMechanism = consumer.ScramSHA256
	}
	return auth
}
