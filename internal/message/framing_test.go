package message_test

import (
	"testing"

	"github.com/mskbridge/mskbridge/internal/message"
)

func TestFramingOf(t *testing.T) {
	const uuid = "\x12\x34\x56\x78\x9a\xbc\x4d\xef\x81\x23\x45\x67\x89\xab\xcd\xef"
	tests := []struct{ name, value, want string }{
		{"nothing", "", ""},
		{"JSON", `{"a": 1}`, ""},
		{"Confluent", "\x00\x00\x00\x00\x11payload", "Avro, Protobuf or JSON schema, registry id 17"},
		{"Confluent cloud", "\x00\x00\x01\x86\xa1payload", "Avro, Protobuf or JSON schema, registry id 100001"},
		{"id 0", "\x00\x00\x00\x00\x00payload", ""},
		{"a number of eight bytes", "\x00\x00\x00\x00\x00\x00\x00\x2a", ""},
		{"more than an id", "\x00\x80\x00\x00\x01payload", ""},
		{"the frame alone", "\x00\x00\x00\x00\x11", ""},
		{"Glue", "\x03\x00" + uuid + "payload", "Glue schema 12345678-9abc-4def-8123-456789abcdef"},
		{"Glue, compressed", "\x03\x05" + uuid + "payload", "Glue schema 12345678-9abc-4def-8123-456789abcdef"},
		{"Glue, other compression", "\x03\x04" + uuid + "payload", ""},
		{"Glue, no UUID", "\x03\x00" + uuid[:8] + "\x00" + uuid[9:] + "payload", ""},
		{"Glue, the frame alone", "\x03\x00" + uuid, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := message.FramingOf([]byte(test.value)).String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
