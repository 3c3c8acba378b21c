package message

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// claimOwn is the number of attributes that Claim adds.
const claimOwn = 3

// Claim turns one encoded message field, whose value lies at url, into one
// that says where: a claim check, with the same attributes and ordering key. It
// has no data, or an envelope without the value. Sum is the SHA-256 of the value. Headers that have to give way
// to the three attributes are added to kafka_headers_dropped. The URL has 1,024
// bytes at most. The field is only read.
func Claim(field []byte, url string, sum [sha256.Size]byte) []byte {
	m := unpack(field, claimOwn)
	body := make([]byte, 0, 2048)
	if len(m.claim) > 0 {
		body = append(appendField(body, tagData, len(m.claim)), m.claim...)
	}
	// These names are behind all others that the encoder writes.
	body = m.appendAttributes(body)
	body = appendAttribute(body, AttrValueSHA256, hex.EncodeToString(sum[:]))
	body = appendAttribute(body, AttrValueSize, strconv.Itoa(len(m.data)))
	body = appendAttribute(body, AttrValueURL, legalValue(url))
	if len(m.order) > 0 {
		body = append(appendField(body, tagOrderingKey, len(m.order)), m.order...)
	}
	return append(appendField(make([]byte, 0, sizeField(len(body))), tagMessage, len(body)), body...)
}

// Value returns the data of an encoded message field, a part of it.
func Value(field []byte) []byte { return unpack(field, 0).data }
