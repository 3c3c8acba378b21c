package googlesql

import (
	"fmt"

	sql "github.com/goccy/go-googlesql"
)

// Checker analyses statements in order: what one creates, the next ones see.
// Not safe for concurrent use.
type Checker struct {
	catalog *sql.SimpleCatalog
	options *sql.AnalyzerOptions
	parser  *sql.ParserOptions
	types   *sql.TypeFactory
	// Analysed counts statements and expressions, those in procedures too.
	Analysed int
	// keep holds what the engine refers to: a handle that Go collects is freed.
	keep []any
}

// beyond are features of BigQuery that the analyzer's maximum leaves out.
func beyond() []sql.LanguageFeature {
	return []sql.LanguageFeature{
		sql.LanguageFeatureFeatureCreateTablePartitionBy,
		sql.LanguageFeatureFeatureCreateTableClusterBy,
		sql.LanguageFeatureFeatureCreateTableNotNull,
		sql.LanguageFeatureFeatureCreateTableFieldAnnotations,
		sql.LanguageFeatureFeatureCreateTableAsSelectColumnList,
		sql.LanguageFeatureFeatureCreateTableFunction,
		sql.LanguageFeatureFeatureTableValuedFunctions,
	}
}

// New returns a Checker with BigQuery's functions and no tables.
func New() (*Checker, error) {
	if err := sql.Init(); err != nil {
		return nil, fmt.Errorf("starting the analyzer: %w", err)
	}
	c := &Checker{}
	var t try
	forParser, forAnalyzer := c.language(&t), c.language(&t) // each is emptied by its user
	c.types = got(&t, sql.NewTypeFactory)
	c.parser = got(&t, sql.NewParserOptions)
	c.options = got(&t, sql.NewAnalyzerOptions2)
	if t.err == nil {
		var err error
		c.catalog, err = sql.NewSimpleCatalog("bigquery", nil)
		t.also(err)
		t.also(c.parser.SetLanguageOptions(forParser))
		t.also(c.options.SetLanguage(forAnalyzer))
		t.also(c.catalog.AddBuiltinFunctionsAndTypes(&sql.BuiltinFunctionOptions{LanguageOptions: forAnalyzer}))
		t.also(c.options.AddSystemVariable([]string{"row_count"}, c.typeOf(&t, "INT64")))
	}
	c.keep = append(c.keep, forParser, forAnalyzer)
	return c, t.err
}

// language is GoogleSQL as BigQuery speaks it.
func (c *Checker) language(t *try) *sql.LanguageOptions {
	l := got(t, sql.NewLanguageOptions)
	if t.err != nil {
		return nil
	}
	t.also(l.EnableMaximumLanguageFeatures())
	for _, f := range beyond() {
		t.also(l.EnableLanguageFeature(f))
	}
	t.also(l.DisableLanguageFeature(sql.LanguageFeatureFeatureJsonTypeComparison))
	t.also(l.SetProductMode(sql.ProductModeProductExternal))
	t.also(l.EnableReservableKeyword("QUALIFY", true))
	t.also(l.SetSupportsAllStatementKinds())
	return l
}

// Parameter declares a named parameter, such as "expected", of a type as SQL
// writes it.
func (c *Checker) Parameter(name, kind string) error {
	var t try
	of := c.typeOf(&t, kind)
	if t.err == nil {
		t.also(c.options.AddQueryParameter(name, of))
	}
	return t.err
}

// Check analyses one statement and adds what it creates to the catalog.
func (c *Checker) Check(text string) error {
	c.Analysed++
	out, err := sql.AnalyzeStatement(text, c.options, c.catalog, c.types)
	if err != nil {
		return fmt.Errorf("analysing %s: %w", begin(text), err)
	}
	c.keep = append(c.keep, out)
	statement, err := out.ResolvedStatement()
	if err != nil {
		return err
	}
	switch s := statement.(type) {
	case *sql.ResolvedCreateTableStmt:
		return c.addTable(s)
	case *sql.ResolvedCreateTableAsSelectStmt:
		return c.addTable(s)
	case *sql.ResolvedCreateViewStmt:
		return c.addView(s)
	case *sql.ResolvedCreateProcedureStmt:
		return c.procedure(s)
	}
	return nil
}

// tableStatement is what the two kinds of CREATE TABLE share.
type tableStatement interface {
	NamePath() ([]string, error)
	ColumnDefinitionList() ([]*sql.ResolvedColumnDefinition, error)
}

func (c *Checker) addTable(s tableStatement) error {
	definitions, err := s.ColumnDefinitionList()
	if err != nil {
		return err
	}
	var columns []column
	for _, d := range definitions {
		var t try
		columns = append(columns, column{got(&t, d.Name), got(&t, d.Type)})
		if t.err != nil {
			return t.err
		}
	}
	return c.add(s.NamePath, columns)
}

func (c *Checker) addView(s *sql.ResolvedCreateViewStmt) error {
	outputs, err := s.OutputColumnList()
	if err != nil {
		return err
	}
	var columns []column
	for _, o := range outputs {
		var t try
		col := got(&t, o.Column)
		if t.err == nil {
			columns = append(columns, column{got(&t, o.Name), got(&t, col.Type)})
		}
		if t.err != nil {
			return t.err
		}
	}
	return c.add(s.NamePath, columns)
}

type column struct {
	name string
	kind sql.Googlesql_TypeNode
}

// add puts a table or view into the catalog. Creating it again is no error.
func (c *Checker) add(path func() ([]string, error), columns []column) error {
	names, err := path()
	if err != nil {
		return err
	}
	name := names[len(names)-1]
	table, err := sql.NewSimpleTable(name, 0)
	if err != nil {
		return err
	}
	for _, col := range columns {
		added, err := sql.NewSimpleColumn(name, col.name, col.kind, false, true)
		if err != nil {
			return err
		}
		if err := table.AddColumn2(added, false); err != nil {
			return err
		}
		c.keep = append(c.keep, added)
	}
	c.keep = append(c.keep, table)
	return c.catalog.AddTable(table)
}

// typeOf reads a type as SQL writes it.
func (c *Checker) typeOf(t *try, kind string) sql.Googlesql_TypeNode {
	if t.err != nil {
		return nil
	}
	of, err := sql.AnalyzeType(kind, c.options, c.catalog, c.types)
	t.also(err)
	return of
}

// try keeps the first error of many calls.
type try struct{ err error }

func (t *try) also(err error) {
	if t.err == nil {
		t.err = err
	}
}

// got calls f unless something failed before.
func got[T any](t *try, f func() (T, error)) T {
	var none T
	if t.err != nil {
		return none
	}
	v, err := f()
	t.also(err)
	return v
}

func begin(text string) string { return fmt.Sprintf("%.60q", text) }
