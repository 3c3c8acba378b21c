package googlesql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rules returns what BigQuery would refuse, or bill for everything, in a
// statement that the analyzer takes.
func Rules(sql string) []string {
	text := comment.ReplaceAllString(sql, "")
	// Structure is looked for where no string can pretend to be it.
	plain := literal.ReplaceAllStringFunc(text, func(s string) string { return "'" + strings.Repeat("x", len(s)-2) + "'" })
	var out []string
	for _, rule := range []func(text, plain string) []string{
		clusterRule, partitionRule, optionRule, filterRule, transactionRule, mergeRule, declareRule, pathRule, qualifyRule, nameRule,
	} {
		out = append(out, rule(text, plain)...)
	}
	return out
}

var (
	comment = regexp.MustCompile(`(?m)--.*$`)
	literal = regexp.MustCompile(`'[^']*'`)

	columnLine = regexp.MustCompile(`(?m)^  (\w+) (\w+)`)
	cluster    = regexp.MustCompile(`(?m)^CLUSTER BY (.*)$`)
	partition  = regexp.MustCompile(`(?m)^PARTITION BY (DATE\()?(\w+)\)?$`)
)

// columns returns the types of the columns that a CREATE TABLE defines.
func columns(plain string) map[string]string {
	out := make(map[string]string)
	for _, m := range columnLine.FindAllStringSubmatch(plain, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// clusterRule: at most four columns, of types that have an order and are short.
func clusterRule(_, plain string) (out []string) {
	m := cluster.FindStringSubmatch(plain)
	if m == nil {
		return nil
	}
	names, kinds := strings.Split(m[1], ", "), columns(plain)
	if len(names) > 4 {
		out = append(out, "more than four cluster columns")
	}
	for _, name := range names {
		if !slices.Contains([]string{"STRING", "INT64", "DATE", "TIMESTAMP", "DATETIME", "BOOL", "NUMERIC", "BIGNUMERIC"}, kinds[name]) {
			out = append(out, fmt.Sprintf("%s is %s, which cannot be clustered by", name, kinds[name]))
		}
	}
	return out
}

// partitionRule: a DATE, or the DATE of a TIMESTAMP.
func partitionRule(_, plain string) []string {
	if !strings.Contains(plain, "\nPARTITION BY") || !strings.HasPrefix(strings.TrimSpace(plain), "CREATE TABLE") {
		return nil
	}
	m := partition.FindStringSubmatch(plain)
	if m == nil {
		return []string{"partitioned by something else than a day"}
	}
	want := "DATE"
	if m[1] != "" {
		want = "TIMESTAMP"
	}
	if have := columns(plain)[m[2]]; have != want {
		return []string{fmt.Sprintf("partitioned by %s, which is %s and not %s", m[2], have, want)}
	}
	return nil
}

// options are the ones that we use, with the form of their values.
func options() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"description":               regexp.MustCompile(`^'[^']{1,512}'$`),
		"partition_expiration_days": regexp.MustCompile(`^[0-9]+$`),
		"require_partition_filter":  regexp.MustCompile(`^TRUE$`),
		"labels":                    regexp.MustCompile(`^\[\('[a-z][a-z0-9_-]{0,62}', '[a-z0-9_-]{0,63}'\)\]$`),
	}
}

var (
	optionList = regexp.MustCompile(`(?s)OPTIONS \((.*?)\)(?:[,;\n]|$)`)
	option     = regexp.MustCompile(`(\w+) = ('[^']*'|\[[^]]*\]|\w+)`)
)

func optionRule(text, _ string) (out []string) {
	for _, list := range optionList.FindAllStringSubmatch(text, -1) {
		for _, m := range option.FindAllStringSubmatch(list[1], -1) {
			if form := options()[m[1]]; form == nil || !form.MatchString(m[2]) {
				out = append(out, fmt.Sprintf("option %s = %s", m[1], m[2]))
			}
		}
	}
	return out
}

var (
	onLog   = regexp.MustCompile("(?:FROM|JOIN|INTO) `[^`]*_log`")
	onRaw   = regexp.MustCompile("(?:FROM|JOIN) `[^`]*_(?:raw|parsed|records)`")
	byDate  = regexp.MustCompile(`kafka_date (?:BETWEEN|>=|=)`)
	byTime  = regexp.MustCompile(`publish_time (?:BETWEEN|>=)`)
	layered = regexp.MustCompile("^CREATE OR REPLACE VIEW `[^`]*_(?:parsed|records|rejects)`")
)

// filterRule: whoever reads a table that requires a partition filter has one in
// the same query. The views that only pass on are for their readers to filter.
func filterRule(_, plain string) (out []string) {
	if layered.MatchString(strings.TrimSpace(plain)) {
		return nil
	}
	for _, look := range []struct{ from, filter *regexp.Regexp }{{onLog, byDate}, {onRaw, byTime}} {
		for _, at := range look.from.FindAllStringIndex(plain, -1) {
			if !look.filter.MatchString(enclosing(plain, at[0])) {
				out = append(out, "no partition filter: "+plain[at[0]:at[1]])
			}
		}
	}
	return out
}

// enclosing returns the bracket, or the statement, that position i is in.
func enclosing(s string, i int) string {
	depth, from := 0, 0
	for k := i; k > 0; k-- {
		if s[k] == ')' {
			depth++
		}
		if s[k] == '(' {
			depth--
		}
		if depth < 0 || depth == 0 && s[k] == ';' {
			from = k + 1
			break
		}
	}
	depth = 0
	for k := i; k < len(s); k++ {
		if s[k] == '(' {
			depth++
		}
		if s[k] == ')' {
			depth--
		}
		if depth < 0 || depth == 0 && s[k] == ';' {
			return s[from:k]
		}
	}
	return s[from:]
}

var transaction = regexp.MustCompile(`(?s)BEGIN TRANSACTION;(.*?)COMMIT TRANSACTION;`)

// transactionRule: no DDL between BEGIN and COMMIT.
func transactionRule(_, plain string) (out []string) {
	for _, m := range transaction.FindAllStringSubmatch(plain, -1) {
		if found := regexp.MustCompile(`\b(?:CREATE|DROP|ALTER|TRUNCATE)\b`).FindString(m[1]); found != "" {
			out = append(out, found+" inside a transaction")
		}
	}
	return out
}

var merge = regexp.MustCompile(`(?s)MERGE INTO.*?USING (\(.*?\n *\)) AS s\s+ON (.*?);`)

// mergeRule: the source has each row once, and the clauses have no subquery.
func mergeRule(_, plain string) (out []string) {
	if n := strings.Count(plain, "MERGE INTO"); n != len(merge.FindAllString(plain, -1)) {
		out = append(out, "a MERGE of a form that this rule does not know")
	}
	for _, m := range merge.FindAllStringSubmatch(plain, -1) {
		if !strings.Contains(m[1], "QUALIFY") && !strings.Contains(m[1], "GROUP BY") {
			out = append(out, "the source of a MERGE is not reduced to one row for each target")
		}
		if strings.Contains(m[2], "SELECT") {
			out = append(out, "a subquery in a clause of MERGE")
		}
	}
	return out
}

// declareRule: variables come first in their block.
func declareRule(_, plain string) []string {
	_, body, ok := strings.Cut(plain, "\nBEGIN\n")
	if !ok {
		return nil
	}
	last, other := strings.LastIndex(body, "DECLARE "), regexp.MustCompile(`(?m)^ *(?:SET|CREATE|MERGE|UPDATE|IF|BEGIN)\b`).FindStringIndex(body)
	if other != nil && last > other[0] {
		return []string{"DECLARE after another statement"}
	}
	return nil
}

var jsonCall = regexp.MustCompile(`JSON_(?:VALUE|QUERY)\((.*?), '(.*?)'\)`)

// pathRule: a dotted name without quotes is no error but NULL for ever.
func pathRule(text, _ string) (out []string) {
	for _, m := range jsonCall.FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`^\$\.[A-Za-z_][A-Za-z0-9_]*$`).MatchString(m[2]) {
			out = append(out, "JSON path "+m[2])
		}
	}
	return out
}

// qualifyRule: BigQuery wants WHERE, GROUP BY or HAVING beside QUALIFY.
func qualifyRule(_, plain string) (out []string) {
	for _, at := range regexp.MustCompile(`\bQUALIFY\b`).FindAllStringIndex(plain, -1) {
		query := enclosing(plain, at[0])
		if !regexp.MustCompile(`\b(?:WHERE|GROUP BY|HAVING)\b`).MatchString(query[:strings.LastIndex(query, "QUALIFY")]) {
			out = append(out, "QUALIFY without WHERE")
		}
	}
	return out
}

// nameRule: what names of tables, procedures and functions can hold.
func nameRule(_, plain string) (out []string) {
	for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(plain, -1) {
		parts := strings.Split(m[1], ".")
		if !regexp.MustCompile(`^[A-Za-z0-9_]{1,256}$`).MatchString(parts[len(parts)-1]) || len(parts) > 3 {
			out = append(out, "name "+m[1])
		}
	}
	return out
}
