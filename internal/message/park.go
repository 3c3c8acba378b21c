package message

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// parkedHead is room for the head of a request to any dead-letter topic:
	// project ids with a domain have up to 94 characters, topics 255.
	parkedHead = 512
	// parkedOwn is the number of attributes that Park adds.
	parkedOwn = 5
)

// Park turns one encoded message field, which may break limits, into one for
// the dead-letter topic that breaks none: idempotency_key unchanged, the data
// where it fits, those attributes that fit, and reason, detail, size and hash
// of the value, and the destination it was meant for. It has no ordering key:
// nothing waits behind a parked record. Headers that have to give way are
// added to kafka_headers_dropped. The field is only read.
func Park(field []byte, r *Refusal, destination string) []byte {
	m := unpack(field, parkedOwn)
	attributes := m.appendAttributes(make([]byte, 0, 2048))
	attributes = appendAttribute(attributes, AttrParkedDestination, legalValue(destination))
	attributes = appendAttribute(attributes, AttrParkedDetail, legalValue(r.Detail))
	attributes = appendAttribute(attributes, AttrParkedReason, legalValue(string(r.Reason)))
	sum := sha256.Sum256(m.data)
	attributes = appendAttribute(attributes, AttrParkedSHA256, hex.EncodeToString(sum[:]))
	attributes = appendAttribute(attributes, AttrParkedSize, strconv.Itoa(len(m.data)))

	size := len(attributes)
	if len(m.data) > 0 {
		size += sizeField(len(m.data))
	}
	data := m.data
	if sizeField(size) > MaxRequest-parkedHead {
		data, size = nil, len(attributes)
	}
	parked := appendField(make([]byte, 0, sizeField(size)), tagMessage, size)
	if len(data) > 0 {
		parked = append(appendField(parked, tagData, len(data)), data...)
	}
	return append(parked, attributes...)
}

// unpacked is a message field taken apart. All slices point into it.
type unpacked struct {
	own     int // attributes that the caller adds
	data    []byte
	claim   []byte  // data of a claim to it
	order   []byte  // ordering key
	entries []entry // legal attributes that Park does not replace, in wire order
	headers int     // how many of the entries are headers
	dropped int     // kafka_headers_dropped so far
}

type entry struct{ name, value []byte }

func (e entry) isHeader() bool { return bytes.HasPrefix(e.name, []byte(AttrHeaderPrefix)) }

// unpack reads as far as field is well formed, for a message that gets own
// attributes more.
func unpack(field []byte, own int) unpacked {
	m := unpacked{own: own}
	_, rest, _, ok := next(field)
	for ok {
		var tag byte
		var content []byte
		if tag, content, rest, ok = next(rest); !ok {
			break
		}
		switch tag {
		case tagData:
			m.data = content
		case tagClaim:
			m.claim = content
		case tagOrderingKey:
			if len(content) <= MaxOrderingKey && isText(content) {
				m.order = content
			}
		case tagAttribute:
			m.take(content)
		}
	}
	return m
}

// take keeps one attribute if it is legal.
func (m *unpacked) take(content []byte) {
	name, value, ok := pair(content)
	e := entry{name, value}
	switch {
	case !ok:
	case string(name) == AttrHeadersDropped:
		n, _ := strconv.ParseUint(string(value), 10, 31)
		m.dropped += int(n)
	case !e.legal():
		if e.isHeader() {
			m.dropped++
		}
	case e.isHeader():
		m.headers++
		m.entries = append(m.entries, e)
	case len(m.entries)-m.headers < MaxAttributes-m.own-1:
		m.entries = append(m.entries, e)
	}
}

// legal reports whether Pub/Sub takes e and Park does not write it itself.
func (e entry) legal() bool {
	return len(e.name) > 0 && len(e.name) <= MaxAttributeName && isText(e.name) &&
		len(e.value) <= MaxAttributeValue && isText(e.value) &&
		!bytes.HasPrefix(e.name, []byte("mskbridge_")) &&
		(!bytes.HasPrefix(e.name, []byte("goog")) || string(e.name) == AttrTraceparent)
}

// appendAttributes appends the entries, and as few headers less as make room
// for the caller's own, with what is then the count of dropped headers in its place.
func (m *unpacked) appendAttributes(b []byte) []byte {
	others := len(m.entries) - m.headers
	keep := min(m.headers, MaxAttributes-m.own-others)
	if m.dropped > 0 || keep < m.headers {
		keep = min(m.headers, MaxAttributes-m.own-1-others)
	}
	m.dropped += m.headers - keep
	counted := m.dropped == 0
	for _, e := range m.entries {
		if e.isHeader() {
			if keep == 0 {
				continue
			}
			keep--
		}
		if !counted && string(e.name) > AttrHeadersDropped {
			b = appendAttribute(b, AttrHeadersDropped, strconv.Itoa(m.dropped))
			counted = true
		}
		b = appendAttribute(b, string(e.name), e.value)
	}
	if !counted {
		b = appendAttribute(b, AttrHeadersDropped, strconv.Itoa(m.dropped))
	}
	return b
}

// legalValue makes s an attribute value: text, cut to 1,024 bytes.
func legalValue(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	if len(s) <= MaxAttributeValue {
		return s
	}
	s = s[:MaxAttributeValue]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
