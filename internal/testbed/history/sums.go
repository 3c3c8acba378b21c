package history

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// sums identify the content of a record, taken from the record itself and,
// by the table of attributes, from a message.
type sums struct {
	value, key, headers uint64
	partial             bool // not all headers are in the message
}

// sum is 0 for null and the head of a SHA-256 otherwise.
func sum(b []byte) uint64 {
	if b == nil {
		return 0
	}
	h := sha256.Sum256(b)
	return binary.BigEndian.Uint64(h[:8])
}

// headerSum is cheaper than sum: it guards against mistakes, not attackers.
func headerSum(name string, value []byte) uint64 {
	v := uint64(0)
	if value != nil {
		v = xxhash.Sum64(value) | 1
	}
	return (xxhash.Sum64String(name) ^ v*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
}

func sumsOfRecord(r *kgo.Record) sums {
	s := sums{value: sum(r.Value), key: sum(r.Key)}
	for _, h := range r.Headers {
		s.headers += headerSum(h.Key, h.Value)
	}
	return s
}

// sumsOfMessage undoes the mapping of a record to attributes.
func sumsOfMessage(m *fakepubsub.Message) sums {
	var s sums
	if m.Attribute("kafka_tombstone") == nil {
		s.value = sum(notNil(m.Data))
	}
	if hash := m.Attribute("mskbridge_sha256"); hash != nil && s.value != 0 {
		s.value = headOfHex(hash) // parked: the data may not have fitted
	}
	if key := m.Attribute("kafka_key"); key != nil {
		switch string(m.Attribute("kafka_key_encoding")) {
		case "":
			s.key = sum(key)
		case "base64":
			b, _ := base64.StdEncoding.DecodeString(string(key))
			s.key = sum(notNil(b))
		case "sha256":
			s.key = headOfHex(key)
		}
	}
	s.headers = headersOfMessage(m)
	s.partial = m.Attribute("kafka_headers_dropped") != nil
	return s
}

func headersOfMessage(m *fakepubsub.Message) (total uint64) {
	for _, a := range m.Attributes {
		if name, ok := strings.CutPrefix(string(a.Name), "kafka_header_"); ok {
			total += headerSum(name, notNil(a.Value))
		}
	}
	list := m.Attribute("kafka_headers_json")
	if list == nil {
		return total
	}
	var entries []headerJSON
	if json.Unmarshal(list, &entries) != nil {
		return 1 // no record sums to this
	}
	return total + sumOfHeaders(entries)
}

// headerJSON is an entry of kafka_headers_json, and of an envelope's headers.
type headerJSON struct {
	Name       string  `json:"name"`
	NameBase64 []byte  `json:"name_base64"`
	Value      *string `json:"value"`
	Base64     *[]byte `json:"base64"`
}

func sumOfHeaders(entries []headerJSON) (total uint64) {
	for _, e := range entries {
		var value []byte
		switch {
		case e.Base64 != nil:
			value = notNil(*e.Base64)
		case e.Value != nil:
			value = notNil([]byte(*e.Value))
		}
		total += headerSum(e.Name+string(e.NameBase64), value)
	}
	return total
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// headOfHex returns the sum of which text is the whole SHA-256 in hex.
func headOfHex(text []byte) uint64 {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != sha256.Size {
		return 1
	}
	return binary.BigEndian.Uint64(b)
}
