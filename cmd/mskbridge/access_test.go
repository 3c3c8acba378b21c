package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/fakeaws"
)

// accessOf joins what a configuration says, as run does.
func accessOf(t *testing.T, change func(*config.Config)) (consumer.Auth, error) {
	t.Helper()
	cfg := &config.Config{Settings: config.Settings{
		Brokers: []string{"b-1.x.c2.kafka.eu-west-1.amazonaws.com:9098"}, Group: "orders",
		Region: "eu-west-1", RoleARN: "arn:aws:iam::123456789012:role/bridge", RoleAudience: "sts.amazonaws.com",
	}}
	change(cfg)
	dial, auth, err := brokerAccess(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err == nil && dial == nil {
		t.Error("no way to dial")
	}
	return auth, err
}

// TestKeylessAccess finds the metadata server and STS where the environment
// says, as a process on Cloud Run does.
func TestKeylessAccess(t *testing.T) {
	aws := fakeaws.New(fakeaws.Options{
		Region: "eu-west-1", Role: "arn:aws:iam::123456789012:role/bridge", Audience: "sts.amazonaws.com", SessionName: "mskbridge-orders",
	})
	address, err := aws.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(aws.Close)
	t.Setenv("GCE_METADATA_HOST", address)
	t.Setenv("AWS_ENDPOINT_URL_STS", "http://"+address)

	auth, err := accessOf(t, func(c *config.Config) { c.Auth = config.AuthIAM })
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.IAM(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	who, ok := aws.Identity(keys.AccessKey)
	if !ok || who.SecretKey != keys.SecretKey || who.SessionToken != keys.SessionToken || auth.Principal != "arn:aws:iam::123456789012:role/bridge/mskbridge-orders" {
		t.Errorf("credentials of %+v for %s", who.Principal, auth.Principal)
	}

	auth, err = accessOf(t, func(c *config.Config) { c.Auth = config.AuthIAMOAuth })
	if err != nil {
		t.Fatal(err)
	}
	if token, err := auth.Token(t.Context()); err != nil || token == "" || auth.IAM != nil {
		t.Errorf("no token: %v", err)
	}
}

func TestPasswordAccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	auth, err := accessOf(t, func(c *config.Config) {
		c.Auth, c.ScramUser, c.ScramPasswordFile, c.ScramMechanism = config.AuthScram, "bridge", path, config.ScramSHA256
	})
	if err != nil || auth.ScramMechanism != consumer.ScramSHA256 || auth.Principal != "User:bridge" {
		t.Fatalf("%+v (%v)", auth, err)
	}
	for _, password := range []string{"first", "renewed"} {
		if err := os.WriteFile(path, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
		if user, got, err := auth.Scram(t.Context()); user != "bridge" || got != password || err != nil {
			t.Errorf("got %s and %q (%v), want %q", user, got, err, password)
		}
	}
	auth, err = accessOf(t, func(c *config.Config) {
		c.Auth, c.ScramUser, c.ScramPassword = config.AuthScram, "bridge", config.NewSecret("of the environment")
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, got, err := auth.Scram(t.Context()); got != "of the environment" || err != nil || auth.ScramMechanism != "" {
		t.Errorf("got %q (%v)", got, err)
	}
}

func TestAccessWithoutSASL(t *testing.T) {
	for _, way := range []string{config.AuthTLS, config.AuthPlaintext} {
		auth, err := accessOf(t, func(c *config.Config) { c.Auth = way })
		if err != nil || auth.IAM != nil || auth.Token != nil || auth.Scram != nil {
			t.Errorf("%s: %+v (%v)", way, auth, err)
		}
	}
	_, err := accessOf(t, func(c *config.Config) {
		c.Auth, c.TLSCertFile, c.TLSKeyFile = config.AuthMTLS, "/nowhere/cert.pem", "/nowhere/key.pem"
	})
	if fault.Code(err) != fault.CodeUsage {
		t.Errorf("mtls without files: %v", err)
	}
}
