package duckdb

import (
	"fmt"
	"strings"
	"unicode"
)

// token is one word, literal or sign of GoogleSQL.
type token struct {
	kind tokenKind
	text string // of a path without its backquotes
}

type tokenKind int

const (
	word    tokenKind = iota // keywords and names
	path                     // `project.dataset.name`
	literal                  // strings and numbers, as they were written
	sign                     // operators and brackets, @name, @@name
)

func (t token) is(text string) bool {
	return t.kind != literal && t.kind != path && strings.EqualFold(t.text, text)
}

// scan splits SQL into tokens and drops comments. It knows what the templates
// use: strings in single quotes, comments behind two dashes.
func scan(sql string) ([]token, error) {
	var out []token
	for i := 0; i < len(sql); {
		rest := sql[i:]
		switch c := sql[i]; {
		case unicode.IsSpace(rune(c)):
			i++
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				return out, nil
			}
			i += n
		case c == '`' || c == '\'':
			n := strings.IndexByte(rest[1:], c)
			if n < 0 {
				return nil, fmt.Errorf("scanning SQL: no end of %.20q", rest)
			}
			if c == '`' {
				out = append(out, token{path, rest[1 : n+1]})
			} else {
				out = append(out, token{literal, rest[:n+2]})
			}
			i += n + 2
		case isWord(c):
			n := span(rest, isWord)
			kind := word
			if c >= '0' && c <= '9' {
				kind = literal
			}
			out = append(out, token{kind, rest[:n]})
			i += n
		case c == '@':
			n := span(rest, func(c byte) bool { return isWord(c) || c == '@' })
			out = append(out, token{sign, rest[:n]})
			i += n
		default:
			n := 1
			for _, two := range []string{"<=", ">=", "!=", "<>", "||"} {
				if strings.HasPrefix(rest, two) {
					n = 2
				}
			}
			out = append(out, token{sign, rest[:n]})
			i += n
		}
	}
	return out, nil
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func span(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

// closing returns the index of the bracket that closes the one at open.
func closing(ts []token, open int) int {
	depth := 0
	for i := open; i < len(ts); i++ {
		if ts[i].kind != sign {
			continue
		}
		switch ts[i].text {
		case "(", "[":
			depth++
		case ")", "]":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(ts) - 1
}

// split cuts tokens at commas that are in no bracket.
func split(ts []token) [][]token {
	var out [][]token
	begin := 0
	for i := 0; i < len(ts); i++ {
		switch {
		case ts[i].is("(") || ts[i].is("["):
			i = closing(ts, i)
		case ts[i].is(","):
			out = append(out, ts[begin:i])
			begin = i + 1
		}
	}
	return append(out, ts[begin:])
}

// phrase reports whether the words stand at i.
func phrase(ts []token, i int, words ...string) bool {
	for k, w := range words {
		if i+k >= len(ts) || !ts[i+k].is(w) {
			return false
		}
	}
	return true
}
