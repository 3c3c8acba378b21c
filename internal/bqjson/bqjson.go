// Package bqjson knows what BigQuery takes as a value of a JSON column. It is
// narrower than what encoding/json takes: what GoogleSQL's parser refuses was
// asked of it (verify/googlesql), the depth is documented.
package bqjson

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may be nested. Source: "Working with
// JSON data in GoogleSQL", limitations, November 2026.
const maxDepth = 500

// Refusal says in one clause why BigQuery would not take b as JSON, "" when it
// would: nothing of b is in it. It allocates nothing, but for numbers of more
// than 300 digits. Numbers that a double only comes near to are taken.
func Refusal(b []byte) string {
	if !utf8.Valid(b) || !json.Valid(b) {
		return "it is not valid JSON"
	}
	depth, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			text = !text
		case c == '\\':
			n := escape(b[i:])
			if n == 0 {
				return "it has half of a surrogate pair"
			}
			i += n - 1
		case text:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return "it has more than " + strconv.Itoa(maxDepth) + " levels"
			}
		case c == ']' || c == '}':
			depth--
		case '0' <= c && c <= '9':
			n := number(b[i:])
			if n == 0 {
				return "it has a number beyond a double"
			}
			i += n - 1
		}
	}
	return ""
}

// escape is the length of the escape that b begins with, of both halves of a
// pair, and 0 for one half.
func escape(b []byte) int {
	const one = len(`\u0000`)
	switch {
	case b[1] != 'u':
		return 2
	case !utf16.IsSurrogate(unit(b)):
		return one
	case b[one] == '\\' && b[one+1] == 'u' && utf16.DecodeRune(unit(b), unit(b[one:])) != utf8.RuneError:
		return 2 * one
	default:
		return 0
	}
}

// unit is the unit of UTF-16 that b begins with, \u and four digits.
func unit(b []byte) rune {
	var u [2]byte
	_, _ = hex.Decode(u[:], b[2:6]) // the digits are valid
	return rune(binary.BigEndian.Uint16(u[:]))
}

// number is the length of the number that b begins with, and 0 when it is
// beyond a double, which takes an exponent or many digits.
func number(b []byte) int {
	const surely = 300 // digits that a double has room for
	n, exponent := 1, false
	for ; n < len(b) && strings.IndexByte("0123456789.eE+-", b[n]) >= 0; n++ {
		exponent = exponent || b[n]|0x20 == 'e'
	}
	if exponent || n > surely {
		if _, err := strconv.ParseFloat(string(b[:n]), 64); err != nil {
			return 0
		}
	}
	return n
}
