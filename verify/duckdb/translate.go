package duckdb

import (
	"fmt"
	"strings"
)

// macros give DuckDB the functions that differ in more than their name.
func macros() []string {
	return []string{
		// BigQuery's timestamps end in the year 9999.
		`CREATE MACRO safe_timestamp_millis(ms) AS CASE WHEN ms BETWEEN -62135596800000 AND 253402300799999 THEN epoch_ms(CAST(ms AS BIGINT)) END`,
		`CREATE MACRO safe_from_base64(s) AS TRY(from_base64(s))`,
		`CREATE MACRO safe_from_hex(s) AS TRY(unhex(s))`,
	}
}

// renamed are words with the same meaning under another name.
func renamed(t token) string {
	switch strings.ToUpper(t.text) {
	case "INT64":
		return "BIGINT"
	case "STRING":
		return "VARCHAR"
	case "BYTES":
		return "BLOB"
	case "BOOL":
		return "BOOLEAN"
	case "SAFE_CAST":
		return "TRY_CAST"
	case "JSON_VALUE":
		return "json_extract_string"
	case "SPLIT":
		return "string_split"
	case "EXCEPT":
		return "EXCLUDE"
	default:
		return t.text
	}
}

// translator writes the tokens of one statement as DuckDB's SQL.
type translator struct {
	variables map[string]string // DuckDB's text for variables and @parameters
	out       strings.Builder
}

// translate returns DuckDB's text of one statement.
func translate(ts []token, variables map[string]string) string {
	x := translator{variables: variables}
	x.all(ddl(ts))
	return strings.TrimSpace(x.out.String())
}

func (x *translator) put(s string) { x.out.WriteString(s + " ") }

func (x *translator) text(ts []token) string {
	inner := translator{variables: x.variables}
	inner.all(ts)
	return strings.TrimSpace(inner.out.String())
}

func (x *translator) all(ts []token) {
	for i := 0; i < len(ts); {
		i += x.next(ts, i)
	}
}

// next writes what begins at i and returns how many tokens that was.
func (x *translator) next(ts []token, i int) int {
	t := ts[i]
	if n := x.call(ts, i); n > 0 {
		return n
	}
	switch {
	case t.kind == path:
		x.put(`"` + t.text[strings.LastIndexByte(t.text, '.')+1:] + `"`)
	case t.kind == literal:
		x.put(t.text)
	case t.kind == sign && strings.HasPrefix(t.text, "@"):
		x.put(x.value(t.text))
	case t.kind == sign:
		x.put(t.text)
	case i > 0 && ts[i-1].is("."):
		x.put(t.text)
	case phrase(ts, i, "AS", "STRUCT") && i > 0 && ts[i-1].is("SELECT"):
		return 2
	case phrase(ts, i, "ARRAY", "<", "STRUCT", "<"):
		return x.arrayOfStruct(ts, i)
	case x.variables[t.text] != "":
		x.put(x.variables[t.text])
	default:
		x.put(renamed(t))
	}
	return 1
}

func (x *translator) value(name string) string {
	if v := x.variables[name]; v != "" {
		return v
	}
	return name // DuckDB refuses it
}

// call writes the calls whose arguments change, 0 for all others.
func (x *translator) call(ts []token, i int) int {
	safe := phrase(ts, i, "SAFE", ".")
	if safe {
		x.out.WriteString("safe_" + strings.ToLower(ts[i+2].text))
		return 3
	}
	if ts[i].is("[") && phrase(ts, i+1, "SAFE_OFFSET", "(") {
		fmt.Fprintf(&x.out, "[%s + 1] ", ts[i+3].text)
		return 6
	}
	if i+1 >= len(ts) || ts[i].kind != word || !ts[i+1].is("(") {
		return 0
	}
	end := closing(ts, i+1)
	inner := ts[i+2 : end]
	args := split(inner)
	length := end - i + 1
	switch strings.ToUpper(ts[i].text) {
	case "CURRENT_TIMESTAMP":
		x.put(x.value("@@now"))
	case "DATE":
		x.put("CAST(" + x.text(inner) + " AS DATE)")
	case "CONCAT": // DuckDB's own leaves NULL out
		parts := make([]string, len(args))
		for k, a := range args {
			parts[k] = x.text(a)
		}
		x.put("(" + strings.Join(parts, " || ") + ")")
	case "CAST":
		if n := len(inner); !phrase(inner, n-2, "AS", "BYTES") {
			return 0
		}
		x.put("encode(" + x.text(inner[:len(inner)-2]) + ")")
	case "TIMESTAMP_SUB": // (t, INTERVAL n UNIT)
		n := args[1]
		x.put(fmt.Sprintf("(%s - to_%ss(%s))", x.text(args[0]), strings.ToLower(n[len(n)-1].text), x.text(n[1:len(n)-1])))
	case "TIMESTAMP_DIFF": // whole units between, not boundaries
		x.put(fmt.Sprintf("date_sub('%s', %s, %s)", args[2][0].text, x.text(args[1]), x.text(args[0])))
	case "ARRAY_AGG":
		x.put("array_agg(" + x.text(before(inner, "LIMIT")) + ")")
	case "STRUCT":
		parts := make([]string, len(args))
		for k, a := range args {
			name := a[len(a)-1].text
			if n := len(a); phrase(a, n-2, "AS") {
				a = a[:n-2]
			}
			parts[k] = name + " := " + x.text(a)
		}
		x.put("struct_pack(" + strings.Join(parts, ", ") + ")")
	case "UNNEST": // @expected is a subquery already
		if !strings.HasPrefix(inner[0].text, "@") {
			return 0
		}
		x.put(x.value(inner[0].text))
	default:
		return 0
	}
	return length
}

// arrayOfStruct writes ARRAY<STRUCT<name TYPE, ...>>.
func (x *translator) arrayOfStruct(ts []token, i int) int {
	end := i + 4
	for !ts[end].is(">") {
		end++
	}
	x.put("STRUCT(" + x.text(ts[i+4:end]) + ")[]")
	return end + 2 - i
}

// before returns the tokens in front of a word.
func before(ts []token, w string) []token {
	for i := range ts {
		if ts[i].is(w) {
			return ts[:i]
		}
	}
	return ts
}

// ddl drops what DuckDB has no word for and turns table functions into macros.
func ddl(ts []token) []token {
	if !ts[0].is("CREATE") {
		return ts
	}
	var out []token
	table := phrase(ts, 1, "TABLE") || phrase(ts, 1, "TEMP", "TABLE")
	for i := 0; i < len(ts); i++ {
		switch {
		case ts[i].is("OPTIONS") && phrase(ts, i+1, "("):
			i = closing(ts, i+1)
		case table && (phrase(ts, i, "PARTITION", "BY") || phrase(ts, i, "CLUSTER", "BY")):
			for i+1 < len(ts) && !ts[i+1].is("OPTIONS") && !ts[i+1].is("CLUSTER") && !ts[i+1].is(";") {
				i++
			}
		default:
			out = append(out, ts[i])
		}
	}
	if phrase(out, 3, "TABLE", "FUNCTION") {
		return tableMacro(out)
	}
	return withoutColumns(out)
}

// tableMacro turns CREATE OR REPLACE TABLE FUNCTION f(a TYPE, ...) AS query
// into CREATE OR REPLACE MACRO f(a, ...) AS TABLE query.
func tableMacro(ts []token) []token {
	end := closing(ts, 6)
	out := append([]token{}, ts[:3]...)
	out = append(out, token{word, "MACRO"}, ts[5], token{sign, "("})
	for k, a := range split(ts[7:end]) {
		if k > 0 {
			out = append(out, token{sign, ","})
		}
		out = append(out, a[0])
	}
	out = append(out, token{sign, ")"}, token{word, "AS"}, token{word, "TABLE"})
	return append(out, ts[end+2:]...)
}

// withoutColumns drops the columns of CREATE TABLE ... (columns) AS SELECT.
func withoutColumns(ts []token) []token {
	for i := range ts {
		if ts[i].kind == path && phrase(ts, i+1, "(") {
			if end := closing(ts, i+1); phrase(ts, end+1, "AS", "SELECT") {
				return append(append([]token{}, ts[:i+1]...), ts[end+1:]...)
			}
		}
	}
	return ts
}
