// Package bqjson knows what BigQuery takes as a value of a JSON column. It is
// narrower than what encoding/json takes: what GoogleSQL's parser refuses was
// asked of it (verify/googlesql), the depth is documented.
package bqjson

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may be nested. Source: "Working with
// JSON data in GoogleSQL", limitations, November 2026.
const maxDepth = 500

// Refusal says in one clause why BigQuery would not take b as JSON, "" when it
// would: nothing of b is in it. It reads b once, and allocates nothing but for
// numbers of more than 32 bytes with an exponent, or of more than 300. Numbers
// that a double only comes near to are taken.
func Refusal(b []byte) string {
	if !utf8.Valid(b) {
		return "it is not UTF-8"
	}
	s := scanner{b: b}
	if s.value() && s.peek() == 0 && s.i == len(b) {
		return ""
	}
	if s.why == "" {
		s.why = "its syntax is wrong"
	}
	return s.why
}

// scanner reads JSON. Its methods report whether what they read is sound, and
// leave i behind it. On the way of every record it takes the place of
// encoding/json, which is half as fast and knows nothing of the other rules.
type scanner struct {
	b        []byte
	i, depth int
	why      string // it is not sound, when that is not the syntax
}

func (s *scanner) refuse(why string) bool {
	s.why = why
	return false
}

// peek skips white space and returns the byte behind it, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

func (s *scanner) value() bool {
	switch c := s.peek(); c {
	case '{', '[':
		return s.list(c)
	case '"':
		return s.text()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

func (s *scanner) literal(word string) bool {
	end := min(s.i+len(word), len(s.b))
	ok := string(s.b[s.i:end]) == word
	s.i = end
	return ok
}

// list reads an object or an array. What closes it is two behind what opens it.
func (s *scanner) list(open byte) bool {
	if s.depth++; s.depth > maxDepth {
		return s.refuse("it has more than " + strconv.Itoa(maxDepth) + " levels")
	}
	s.i++
	for more := s.peek() != open+2; more; {
		if open == '{' {
			if s.peek() != '"' || !s.text() || s.peek() != ':' {
				return false
			}
			s.i++
		}
		if !s.value() {
			return false
		}
		if more = s.peek() == ','; more {
			s.i++
		}
	}
	s.depth--
	return s.skip(open + 2)
}

func (s *scanner) text() bool {
	for s.i++; s.i < len(s.b); {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return true
		case c < ' ':
			return false
		case c != '\\':
			s.i++
		case !s.escape():
			return false
		}
	}
	return false
}

func (s *scanner) escape() bool {
	if s.i+1 == len(s.b) {
		return false
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return true
	}
	high, ok := s.unit()
	if !ok || !utf16.IsSurrogate(high) {
		return ok
	}
	if low, ok := s.unit(); !ok || utf16.DecodeRune(high, low) == utf8.RuneError {
		return s.refuse("it has half of a surrogate pair")
	}
	return true
}

// unit reads one unit of UTF-16: \u and four digits.
func (s *scanner) unit() (rune, bool) {
	const length = len(`\u0000`)
	if len(s.b)-s.i < length || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' {
		return 0, false
	}
	var u [2]byte
	_, err := hex.Decode(u[:], s.b[s.i+2:s.i+length])
	s.i += length
	return rune(binary.BigEndian.Uint16(u[:])), err == nil
}

// number refuses one beyond a double, which takes an exponent or many digits.
func (s *scanner) number() bool {
	const surely = 300 // digits that a double has room for
	from := s.i
	s.skip('-')
	if !s.skip('0') && !s.digits() || s.skip('.') && !s.digits() {
		return false
	}
	exponent := s.skip('e') || s.skip('E')
	if exponent {
		if _ = s.skip('+') || s.skip('-'); !s.digits() {
			return false
		}
	}
	if exponent || s.i-from > surely {
		if _, err := strconv.ParseFloat(string(s.b[from:s.i]), 64); err != nil {
			return s.refuse("it has a number beyond a double")
		}
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > from
}

// skip takes one byte, if it is c.
func (s *scanner) skip(c byte) bool {
	ok := s.i < len(s.b) && s.b[s.i] == c
	if ok {
		s.i++
	}
	return ok
}
