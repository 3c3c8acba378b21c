package remote

import "strings"

// token is a word, a quoted name or string, or one other character of SQL.
type token struct {
	text     string
	from, to int // in the text it is from
}

// scan splits SQL into tokens, without comments and white space. What is not
// closed reaches to the end.
func scan(sql string) []token {
	var out []token
	for i := 0; i < len(sql); {
		n := 1
		switch c := sql[i]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
			continue
		case strings.HasPrefix(sql[i:], "--"):
			i += until(sql[i:], "\n")
			continue
		case strings.HasPrefix(sql[i:], "/*"):
			i += 2 + until(sql[i+2:], "*/")
			continue
		case c == '\'' || c == '"' || c == '`':
			n = quoted(sql[i:])
		case word(c):
			for i+n < len(sql) && word(sql[i+n]) {
				n++
			}
		}
		out = append(out, token{sql[i : i+n], i, i + n})
		i += n
	}
	return out
}

func word(c byte) bool {
	return c == '_' || c == '@' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// until returns the length of s up to and including end.
func until(s, end string) int {
	if i := strings.Index(s, end); i >= 0 {
		return i + len(end)
	}
	return len(s)
}

// quoted returns the length of what s begins with, quotes included.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}

// essence is SQL as far as it matters whether two texts are the same: without
// comments, white space and the semicolon at its end. The BEGIN and END around
// a procedure are left out, since not everybody stores them.
func essence(sql string) string {
	tokens := scan(sql)
	if n := len(tokens); n > 0 && tokens[n-1].text == ";" {
		tokens = tokens[:n-1]
	}
	if n := len(tokens); n > 1 && strings.EqualFold(tokens[0].text, "BEGIN") && strings.EqualFold(tokens[n-1].text, "END") {
		tokens = tokens[1 : n-1]
	}
	words := make([]string, 0, len(tokens))
	for _, t := range tokens {
		words = append(words, t.text)
	}
	return strings.TrimSuffix(strings.Join(words, " "), " ;")
}
