package config

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	mskBroker = "b-1.orders.1a2b3c.c2.kafka.eu-west-1.amazonaws.com:9098"
	role      = "arn:aws:iam::123456789012:role/bridge"
)

// secretFile returns the path of a readable file.
func secretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAuthRefuses(t *testing.T) {
	file := secretFile(t)
	iam := func(s *Settings) { s.Auth, s.Brokers = AuthIAM, []string{mskBroker} }
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   []string
	}{
		{"role of a user", func(s *Settings) { iam(s); s.RoleARN = "arn:aws:iam::123456789012:user/x" }, []string{"BRIDGE_ROLE_ARN", "role/NAME"}},
		{"role with a short account", func(s *Settings) { iam(s); s.RoleARN = "arn:aws:iam::1234:role/x" }, []string{"12 digits"}},
		{"role without audience", func(s *Settings) { iam(s); s.RoleARN, s.RoleAudience = role, "" }, []string{"BRIDGE_ROLE_AUDIENCE is required"}},
		{"region nowhere", func(s *Settings) { s.Auth = AuthIAM }, []string{"BRIDGE_REGION is required for BRIDGE_AUTH iam", "BRIDGE_AUTH tls"}},
		{"region nowhere for iam-oauth", func(s *Settings) { s.Auth, s.Brokers = AuthIAMOAuth, []string{"kafka.internal:9098"} }, []string{"BRIDGE_REGION is required"}},
		{"region wrong", func(s *Settings) { iam(s); s.Region = "Ireland" }, []string{`BRIDGE_REGION "Ireland"`}},
		{"role with scram", func(s *Settings) { s.Auth, s.RoleARN = AuthScram, role }, []string{"BRIDGE_ROLE_ARN has no effect with BRIDGE_AUTH scram; it belongs to iam, iam-oauth"}},
		{"audience with tls", func(s *Settings) { s.Auth, s.RoleAudience = AuthTLS, "other" }, []string{"BRIDGE_ROLE_AUDIENCE has no effect"}},
		{"region with tls", func(s *Settings) { s.Auth, s.Region = AuthTLS, "eu-west-1" }, []string{"BRIDGE_REGION has no effect"}},
		{"scram user with iam", func(s *Settings) { iam(s); s.ScramUser = "u" }, []string{"BRIDGE_SCRAM_USER has no effect"}},
		{"scram password with plaintext", func(s *Settings) { s.ScramPassword = NewSecret("p") }, []string{"BRIDGE_SCRAM_PASSWORD has no effect"}},
		{"scram mechanism with tls", func(s *Settings) { s.Auth, s.ScramMechanism = AuthTLS, ScramSHA256 }, []string{"BRIDGE_SCRAM_MECHANISM has no effect"}},
		{"scram mechanism", func(s *Settings) { s.Auth, s.ScramMechanism = AuthScram, "sha-1" }, []string{"not one of sha-256, sha-512"}},
		{"scram without user", func(s *Settings) { s.Auth, s.ScramPassword = AuthScram, NewSecret("p") }, []string{"BRIDGE_SCRAM_USER is required"}},
		{"scram without password", func(s *Settings) { s.Auth, s.ScramUser = AuthScram, "u" }, []string{"needs one of"}},
		{"scram with two passwords", func(s *Settings) {
			s.Auth, s.ScramUser, s.ScramPassword, s.ScramPasswordFile = AuthScram, "u", NewSecret("p"), file
		}, []string{"needs one of"}},
		{"scram password file missing", func(s *Settings) { s.Auth, s.ScramUser, s.ScramPasswordFile = AuthScram, "u", "/nowhere/p" }, []string{"BRIDGE_SCRAM_PASSWORD_FILE", "/nowhere/p"}},
		{"mtls without key", func(s *Settings) { s.Auth, s.TLSCertFile = AuthMTLS, file }, []string{"BRIDGE_AUTH mtls needs"}},
		{"mtls with a folder", func(s *Settings) { s.Auth, s.TLSCertFile, s.TLSKeyFile = AuthMTLS, file, t.TempDir() }, []string{"BRIDGE_TLS_KEY_FILE", "is not a file"}},
		{"certificate with tls", func(s *Settings) { s.Auth, s.TLSCertFile, s.TLSKeyFile = AuthTLS, file, file }, []string{"BRIDGE_TLS_CERT_FILE has no effect", "BRIDGE_TLS_KEY_FILE has no effect"}},
		{"ca with plaintext", func(s *Settings) { s.TLSCAFile = file }, []string{"BRIDGE_TLS_CA_FILE has no effect"}},
		{"server name with plaintext", func(s *Settings) { s.TLSServerName = "x" }, []string{"BRIDGE_TLS_SERVER_NAME has no effect"}},
		{"ca missing", func(s *Settings) { s.Auth, s.TLSCAFile = AuthTLS, "/nowhere/ca.pem" }, []string{"BRIDGE_TLS_CA_FILE", "/nowhere/ca.pem"}},
		{"dial rule", func(s *Settings) { s.DialAllow = []string{"10.0.0.0/8", "https://x"} }, []string{`BRIDGE_DIAL_ALLOW has "https://x"`}},
		{"dial prefix too long", func(s *Settings) { s.DialAllow = []string{"10.0.0.0/33"} }, []string{"BRIDGE_DIAL_ALLOW"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := build(settings(t, c.change), 1<<30)
			wantErr(t, err, c.want...)
		})
	}
}

func TestAuthAccepts(t *testing.T) {
	file := secretFile(t)
	for _, c := range []struct {
		name   string
		change func(*Settings)
		check  func(*Config) bool
	}{
		{
			"region of the broker", func(s *Settings) { s.Auth, s.Brokers, s.RoleARN = AuthIAM, []string{mskBroker}, role },
			func(c *Config) bool { return c.Region == "eu-west-1" && c.RoleAudience == "sts.amazonaws.com" },
		},
		{"region of a serverless broker", func(s *Settings) {
			s.Auth, s.Brokers = AuthIAM, []string{"boot-1a2b.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098"}
		}, func(c *Config) bool { return c.Region == "us-gov-west-1" }},
		{"region of a private link", func(s *Settings) {
			s.Auth, s.Brokers = AuthIAM, []string{"vpce-1.kafka.us-east-1.vpce.amazonaws.com:14001"}
		}, func(c *Config) bool { return c.Region == "us-east-1" }},
		{
			"region given wins", func(s *Settings) { s.Auth, s.Brokers, s.Region = AuthIAM, []string{mskBroker}, "us-east-1" },
			func(c *Config) bool { return c.Region == "us-east-1" },
		},
		{
			"region of AWS's own variable", func(s *Settings) { s.Auth, s.Brokers, s.AWSRegion = AuthIAMOAuth, []string{"kafka:9098"}, "us-east-1" },
			func(c *Config) bool { return c.Region == "us-east-1" },
		},
		{"AWS's own variable is not ours", func(s *Settings) { s.AWSRegion = "us-east-1" }, func(c *Config) bool { return c.Region == "" }},
		{"role with a path in China", func(s *Settings) {
			s.Auth, s.Brokers, s.RoleARN = AuthIAM, []string{mskBroker}, "arn:aws-cn:iam::123456789012:role/team/bridge"
		}, func(*Config) bool { return true }},
		{
			"scram", func(s *Settings) { s.Auth, s.ScramUser, s.ScramPassword = AuthScram, "u", NewSecret("p") },
			func(c *Config) bool { return c.ScramMechanism == ScramSHA512 },
		},
		{"scram from a file", func(s *Settings) {
			s.Auth, s.ScramUser, s.ScramPasswordFile, s.ScramMechanism = AuthScram, "u", file, ScramSHA256
		}, func(*Config) bool { return true }},
		{"mtls", func(s *Settings) { s.Auth, s.TLSCertFile, s.TLSKeyFile, s.TLSCAFile = AuthMTLS, file, file, file }, func(*Config) bool { return true }},
		{"tls", func(s *Settings) { s.Auth, s.TLSCAFile, s.TLSServerName = AuthTLS, file, "kafka.example.com" }, func(*Config) bool { return true }},
		{
			"dial rules", func(s *Settings) {
				s.DialAllow = []string{" .kafka.eu-west-1.amazonaws.com", "10.0.0.0/8", "fd00::/8", "10.1.2.3"}
			},
			func(c *Config) bool { return c.DialAllow[0] == ".kafka.eu-west-1.amazonaws.com" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := build(settings(t, c.change), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(got) {
				t.Errorf("not as expected: %+v", got.Settings)
			}
		})
	}
}

// TestLoadTellsTheSigner has the region where the signer of auth iam looks.
func TestLoadTellsTheSigner(t *testing.T) {
	clearEnv(t)
	t.Setenv("AWS_REGION", "us-east-1")
	for name, value := range map[string]string{
		"BRIDGE_BROKERS": "kafka.internal:9098", "BRIDGE_TOPICS": "orders", "BRIDGE_PROJECT": "p", "BRIDGE_REGION": "eu-west-1", "BRIDGE_MEMORY": "256MiB",
	} {
		t.Setenv(name, value)
	}
	if _, err := Load(); err != nil {
		t.Fatal(err)
	}
	if got := os.Getenv("AWS_REGION"); got != "eu-west-1" {
		t.Errorf("AWS_REGION is %q", got)
	}
}
