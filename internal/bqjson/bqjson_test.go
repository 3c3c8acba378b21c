package bqjson_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mskbridge/mskbridge/internal/bqjson"
)

var (
	quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	escapedAny = regexp.MustCompile(`\\u[0-9a-fA-F]{4}|\\.`)
	numberText = regexp.MustCompile(`-?[0-9][0-9.eE+-]*`)
)

// taken reports whether BigQuery takes b as JSON, the slow and obvious
// way: what encoding/json takes, less depth, lone surrogates and numbers that no
// double holds.
func taken(b []byte) bool {
	if !utf8.Valid(b) || !json.Valid(b) {
		return false
	}
	for _, s := range quotedText.FindAllString(string(b), -1) {
		var high rune
		from := -1 // where the low half has to begin
		for _, at := range escapedAny.FindAllStringIndex(s, -1) {
			u := rune(-1)
			if e := s[at[0]:at[1]]; len(e) == 6 {
				v, _ := strconv.ParseUint(e[2:], 16, 16)
				u = rune(v)
			}
			switch low := u >= 0xdc00 && u < 0xe000; {
			case from >= 0 && (!low || at[0] != from || utf16.DecodeRune(high, u) == utf8.RuneError), from < 0 && low:
				return false
			case from >= 0:
				from = -1
			case u >= 0xd800 && u < 0xdc00:
				high, from = u, at[1]
			}
		}
		if from >= 0 {
			return false
		}
	}
	bare := quotedText.ReplaceAllString(string(b), `""`)
	for _, n := range numberText.FindAllString(bare, -1) {
		var f float64
		if json.Unmarshal([]byte(n), &f) != nil {
			return false
		}
	}
	depth := 0
	for _, c := range bare {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > 500 {
			return false
		}
	}
	return true
}

func TestRefusal(t *testing.T) {
	nested := func(n int, open, inner, shut string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	for value, want := range map[string]bool{
		`{}`: true, `[]`: true, `null`: true, ` true `: true, `false`: true, `0`: true, `-0.5e+10`: true, "\"\u2028\"": true,
		`{"a":{"b":[1,2,{"c":"d"}]}}`: true, "\t[\r\n1 , 2 ]": true, `"\u00E9\/\b\f\n\r\t\"\\"`: true, `{"a":1,"a":2}`: true,
		`"\ud83d\ude00"`: true, "\"\x7f\"": true, `1.7976931348623157e308`: true, `1e-400`: true,
		"1" + strings.Repeat("0", 308): true, "0." + strings.Repeat("1", 5000): true,
		nested(500, "[", "", "]"): true, nested(500, `{"":`, "1", "}"): true, nested(300, "[", "1", "]"): true,
		`[` + nested(499, "[", "", "]") + `,` + nested(499, "[", "", "]") + `]`: true,

		``: false, ` `: false, `{`: false, `}`: false, `[1,]`: false, `[,1]`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1,}`: false,
		`{a:1}`: false, `{1:1}`: false, `[1 2]`: false, `[1`: false, `[1}`: false, `{"a":1]`: false, `01`: false, `1.`: false, `.5`: false, `+1`: false, `-`: false,
		`1e`: false, `1e+`: false, `NaN`: false, `Infinity`: false, `tru`: false, `nul`: false, `truex`: false, `True`: false,
		`"`: false, `"a`: false, `"\`: false, `"\x"`: false, `"\u12"`: false, `"\u12g4"`: false, "\"\n\"": false, "\"\x00\"": false, `'a'`: false,
		`{} {}`: false, `{}x`: false, "{}\x00": false, "\ufeff{}": false, "\"\xff\"": false, "\"\xed\xa0\x80\"": false, `// c` + "\n1": false,
		`"\ud83d"`: false, `"\ude00"`: false, `"\ud83dx"`: false, `"\ud83d\n"`: false, `"\ud83d\ud83d\ude00"`: false, `"\ud83d\u0041"`: false,
		`1e309`: false, `-1e400`: false, "1" + strings.Repeat("0", 309): false,
		nested(501, "[", "", "]"): false, nested(501, `{"":`, "1", "}"): false, nested(1_000_000, "[", "", ""): false,
		"\x00\x00\x00\x00\x01avro": false, `"` + strings.Repeat("a", 100): false,
	} {
		if got := taken([]byte(value)); got != want {
			t.Errorf("%.40q: the reference says %v, want %v", value, got, want)
		}
		if got := bqjson.Refusal([]byte(value)); (got == "") != want {
			t.Errorf("%.40q: %q, want %v", value, got, want)
		}
	}
}

// FuzzRefusal holds the walk against the reference.
func FuzzRefusal(f *testing.F) {
	for _, value := range []string{`{"a":["\\u00e9",1.5e3,null]}`, `"\ud83d\ude00 \\ud800"`, `"\ud800\u0041"`, `[1e400]`, strings.Repeat("[", 501), "\xff"} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if got, want := bqjson.Refusal(value), taken(value); (got == "") != want {
			t.Errorf("%q: %q, want %v", value, got, want)
		}
	})
}

func TestRefusalAllocatesNothing(t *testing.T) {
	value := []byte(`{"op":"u","total":19.99e0,"note":"gr\u00f6\u00dfer \ud83d\ude00","after":[1,2,{"id":4711}]}`)
	if n := testing.AllocsPerRun(100, func() { bqjson.Refusal(value) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
