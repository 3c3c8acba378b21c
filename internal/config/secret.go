package config

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a string that no printer shows: whatever formats, logs or encodes
// it gets "(set)", or nothing for the zero value. The string sits behind a
// pointer, so that even code that walks the fields of a surrounding struct by
// reflection sees an address at most.
type Secret struct{ value *string }

// NewSecret hides s; an empty s gives the zero Secret.
func NewSecret(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{&s}
}

// Reveal returns the string itself, for the one place that needs it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return "(set)"
}

// Format covers every verb, %#v and %d included.
func (s Secret) Format(w fmt.State, _ rune) { io.WriteString(w, s.String()) } //nolint:errcheck // fmt.State never fails

// MarshalText covers JSON and everything else that encodes text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML keeps the YAML encoder from walking the fields.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue covers slog handlers that do not ask for text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// UnmarshalText takes a secret from the environment.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}
