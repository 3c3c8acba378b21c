package message

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Framing is what a schema registry's serializer puts in front of a value. The
// bridge publishes values as they are; what reads them has to take it off. The
// zero value is none.
type Framing struct {
	registry registry
	id       [16]byte
}

type registry uint8

const (
	confluent registry = iota + 1
	glue
)

// FramingOf recognises what value begins with: Confluent's 0 and a schema id of
// four bytes, or Glue's header version 3, a byte for compression (0 or 5) and
// the UUID of a schema version. It is a guess: other values may begin so too.
func FramingOf(value []byte) Framing {
	var f Framing
	switch {
	case len(value) > 5 && value[0] == 0:
		// Ids are counted from 1; a first byte that is set would be 16 million.
		if id := binary.BigEndian.Uint32(value[1:]); 0 < id && id < 1<<24 {
			f.registry = confluent
			copy(f.id[:], value[1:5])
		}
	case len(value) > 18 && value[0] == 3 && (value[1] == 0 || value[1] == 5) && value[10]>>6 == 0b10:
		f.registry = glue
		copy(f.id[:], value[2:18])
	}
	return f
}

// String says it to people, "" for none.
func (f Framing) String() string {
	switch f.registry {
	case confluent:
		return fmt.Sprintf("Avro, Protobuf or JSON schema, registry id %d", binary.BigEndian.Uint32(f.id[:4]))
	case glue:
		h := hex.EncodeToString(f.id[:])
		return fmt.Sprintf("Glue schema %s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
	default:
		return ""
	}
}
