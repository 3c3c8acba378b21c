package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const canary = "CANARY-1f0e"

// TestSecretNeverPrints plants a canary and prints it in every way Go has.
func TestSecretNeverPrints(t *testing.T) {
	type inner struct {
		Open   Secret
		hidden Secret
	}
	s := NewSecret(canary)
	settings := Settings{ScramPassword: s}
	values := []any{s, &s, inner{s, s}, &inner{s, s}, []Secret{s}, map[string]Secret{"k": s}, settings, &settings, Config{Settings: settings}}
	var out bytes.Buffer
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(j)
		y, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(y)
		for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
			slog.New(h).Info("x", slog.Any("v", v))
		}
	}
	fmt.Fprintln(&out, fmt.Errorf("wrapped: %v", s))
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		if i := strings.Index(out.String(), form); i >= 0 {
			t.Errorf("secret shows: ...%s", out.String()[max(0, i-80):i+len(form)])
		}
	}
	if s.Reveal() != canary {
		t.Error("Reveal lost the secret")
	}
	if fmt.Sprint(s) != "(set)" || fmt.Sprint(Secret{}) != "" || NewSecret("") != (Secret{}) {
		t.Error("a secret shows as (set), none as nothing")
	}
}

func TestSecretFromEnvironment(t *testing.T) {
	clearEnv(t)
	t.Setenv("BRIDGE_SCRAM_PASSWORD", canary)
	s, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if s.ScramPassword.Reveal() != canary {
		t.Error("password not read")
	}
	if _, err := New(s); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("want a refusal without the password, got %v", err)
	}
}
