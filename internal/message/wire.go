package message

import (
	"encoding/binary"
	"math/bits"
)

// Tags of the wire form: field number << 3 | 2, since all are length-delimited.
const (
	tagTopic       = 1<<3 | 2 // PublishRequest.topic
	tagMessage     = 2<<3 | 2 // PublishRequest.messages
	tagData        = 1<<3 | 2 // PubsubMessage.data
	tagAttribute   = 2<<3 | 2 // PubsubMessage.attributes, one map entry
	tagOrderingKey = 5<<3 | 2 // PubsubMessage.ordering_key
	tagName        = 1<<3 | 2 // key of a map entry
	tagValue       = 2<<3 | 2 // value of a map entry
	// tagClaim is no field of a PubsubMessage. In a message that was refused, hence
	// is never published as it is, it holds the data of its claim.
	tagClaim = 15<<3 | 2
)

// sizeField returns the bytes of a field with n bytes of content: tag, length
// and content.
func sizeField(n int) int {
	if n < 0x80 {
		return 2 + n
	}
	return 1 + (bits.Len(uint(n))+6)/7 + n
}

// appendField begins a field of n bytes, which the caller appends.
func appendField(b []byte, tag byte, n int) []byte {
	if n < 0x80 {
		return append(b, tag, byte(n))
	}
	b = append(b, tag)
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// appendAttribute appends one attribute. Like protobuf it writes name and
// value of a map entry even when they are empty.
func appendAttribute[V string | []byte](b []byte, name string, value V) []byte {
	b = appendAttributeName(b, name, len(value))
	return append(b, value...)
}

// appendAttributeName appends an attribute up to where its value of n bytes begins.
func appendAttributeName(b []byte, name string, n int) []byte {
	b = appendField(b, tagAttribute, sizeField(len(name))+sizeField(n))
	b = appendField(b, tagName, len(name))
	b = append(b, name...)
	return appendField(b, tagValue, n)
}

// next takes the first field off b. It reports false at the end and where b is
// not a run of length-delimited fields with one-byte tags.
func next(b []byte) (tag byte, content, rest []byte, ok bool) {
	if len(b) < 2 {
		return 0, nil, nil, false
	}
	n, width := binary.Uvarint(b[1:])
	if width <= 0 || n > uint64(len(b)-1-width) {
		return 0, nil, nil, false
	}
	end := 1 + width + int(n)
	return b[0], b[1+width : end], b[end:], true
}

// pair reads a map entry as the encoder writes it.
func pair(entry []byte) (name, value []byte, ok bool) {
	tag, name, rest, ok := next(entry)
	if !ok || tag != tagName {
		return nil, nil, false
	}
	tag, value, _, ok = next(rest)
	return name, value, ok && tag == tagValue
}

// Attribute returns the value of one attribute of an encoded message field, as
// Encoder and Park write it. It allocates nothing but the string.
func Attribute(field []byte, name string) (string, bool) {
	tag, body, _, ok := next(field)
	if !ok || tag != tagMessage {
		return "", false
	}
	for {
		var content []byte
		if tag, content, body, ok = next(body); !ok {
			return "", false
		}
		if tag != tagAttribute {
			continue
		}
		if n, v, ok := pair(content); ok && string(n) == name {
			return string(v), true
		}
	}
}
