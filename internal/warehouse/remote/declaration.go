package remote

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// What statements make.
const (
	kindTable     = "table"
	kindView      = "view"
	kindFunction  = "table function"
	kindProcedure = "procedure"
)

// declaration is what a CREATE statement of ours says. The text is the only
// source: what is compared is what would be run.
type declaration struct {
	kind    string
	project string // "" for that of the client
	dataset string
	id      string

	columns       []field // of a table
	partition     string  // column, by day; "" for none
	expiryDays    int     // of partitions, 0 for never
	requireFilter bool
	cluster       []string

	arguments []field // of a routine
	body      string  // of a view or routine
}

// field is a column or an argument, in the words of SQL.
type field struct {
	name, kind string // "INT64", "ARRAY<STRUCT<name STRING, value BYTES>>"
	required   bool
}

func (d *declaration) String() string { return d.dataset + "." + d.id }

// path names it in statements for people, who run them in any project.
func (d *declaration) path() string { return strings.TrimPrefix(d.project+"."+d.String(), ".") }

// declare reads a statement of warehouse. It returns nil for one that makes
// nothing, and an error for one that it does not understand.
func declare(s warehouse.Statement) (*declaration, error) {
	p := &parser{sql: s.SQL, tokens: scan(s.SQL)}
	if !p.take("CREATE") {
		return nil, nil //nolint:nilnil // a call or a query makes nothing
	}
	d := &declaration{}
	p.take("OR")
	p.take("REPLACE")
	switch {
	case p.take("TABLE", "FUNCTION"):
		d.kind = kindFunction
	case p.take("TABLE"):
		d.kind = kindTable
	case p.take("VIEW"):
		d.kind = kindView
	case p.take("PROCEDURE"):
		d.kind = kindProcedure
	}
	p.take("IF", "NOT", "EXISTS")
	path := strings.Split(strings.Trim(p.next(), "`"), ".")
	if len(path) < 2 || d.kind == "" {
		return nil, fmt.Errorf("reading %s: it makes nothing known", s.Name)
	}
	n := len(path)
	d.project, d.dataset, d.id = strings.Join(path[:n-2], "."), path[n-2], path[n-1]
	switch d.kind {
	case kindTable:
		d.columns = p.fields(")")
		p.clauses(d)
	case kindView:
		p.clauses(d)
		d.body = p.rest()
	default:
		d.arguments = p.fields(")")
		p.clauses(d)
		d.body = p.rest()
	}
	return d, p.err
}

// parser walks over the tokens of a statement. The first error stays.
type parser struct {
	sql    string
	tokens []token
	at     int
	err    error
}

func (p *parser) peek() string {
	if p.at >= len(p.tokens) {
		return ""
	}
	return p.tokens[p.at].text
}

func (p *parser) next() string {
	text := p.peek()
	p.at++
	return text
}

// take goes past the words if they are the next ones.
func (p *parser) take(words ...string) bool {
	for i, w := range words {
		if p.at+i >= len(p.tokens) || !strings.EqualFold(p.tokens[p.at+i].text, w) {
			return false
		}
	}
	p.at += len(words)
	return true
}

func (p *parser) want(word string) {
	if !p.take(word) && p.err == nil {
		p.err = fmt.Errorf("reading SQL: %q where %q is expected", p.peek(), word)
	}
}

// rest is the text from here to the semicolon at the end.
func (p *parser) rest() string {
	if p.at >= len(p.tokens) {
		return ""
	}
	return strings.TrimRight(strings.TrimSpace(p.sql[p.tokens[p.at].from:]), ";")
}

// fields reads names and types between brackets.
func (p *parser) fields(end string) []field {
	p.want(map[string]string{")": "(", ">": "<"}[end])
	var out []field
	for p.err == nil && !p.take(end) {
		f := field{name: p.next(), kind: p.kind()}
		f.required = p.take("NOT", "NULL")
		if p.take("OPTIONS") {
			p.skip()
		}
		out = append(out, f)
		if p.peek() != end {
			p.want(",")
		}
	}
	return out
}

// kind reads a type and spells it in one way.
func (p *parser) kind() string {
	name := strings.ToUpper(p.next())
	switch name {
	case "ARRAY":
		p.want("<")
		element := p.kind()
		p.want(">")
		return "ARRAY<" + element + ">"
	case "STRUCT":
		return structOf(p.fields(">"))
	}
	return name
}

func structOf(members []field) string {
	var list []string
	for _, f := range members {
		list = append(list, f.name+" "+f.kind)
	}
	return "STRUCT<" + strings.Join(list, ", ") + ">"
}

// skip goes past brackets and what is in them.
func (p *parser) skip() {
	p.want("(")
	for depth := 1; depth > 0 && p.err == nil; {
		switch p.next() {
		case "(":
			depth++
		case ")":
			depth--
		case "":
			p.err = fmt.Errorf("reading SQL: a bracket is not closed")
		}
	}
}

// clauses reads what is between the columns and AS, or BEGIN, or the end.
func (p *parser) clauses(d *declaration) {
	for p.err == nil {
		switch {
		case p.take("PARTITION", "BY", "DATE", "("):
			d.partition = p.next()
			p.want(")")
		case p.take("PARTITION", "BY"):
			d.partition = p.next()
		case p.take("CLUSTER", "BY"):
			for d.cluster = []string{p.next()}; p.take(","); {
				d.cluster = append(d.cluster, p.next())
			}
		case p.take("OPTIONS"):
			from := p.at
			p.skip()
			p.options(d, p.tokens[from:p.at])
		case p.take("AS"), p.peek() == "BEGIN", p.peek() == ";", p.peek() == "":
			return
		default:
			p.err = fmt.Errorf("reading SQL: %q is not expected", p.peek())
		}
	}
}

// options takes those that are compared.
func (p *parser) options(d *declaration, tokens []token) {
	value := func(name string) string {
		i := slices.IndexFunc(tokens, func(t token) bool { return t.text == name })
		if i < 0 || i+2 >= len(tokens) {
			return ""
		}
		return tokens[i+2].text
	}
	d.requireFilter = strings.EqualFold(value("require_partition_filter"), "TRUE")
	if days := value("partition_expiration_days"); days != "" {
		n, err := strconv.Atoi(days)
		if err != nil {
			p.err = fmt.Errorf("reading SQL: partition_expiration_days: %w", err)
		}
		d.expiryDays = n
	}
}
