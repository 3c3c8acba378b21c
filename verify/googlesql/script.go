package googlesql

import (
	"fmt"
	"strings"

	sql "github.com/goccy/go-googlesql"
)

// procedure adds a procedure to the catalog and analyses its body: arguments and
// variables become constants of their type, statements are analysed in order.
func (c *Checker) procedure(s *sql.ResolvedCreateProcedureStmt) error {
	var t try
	path, names, signature, body := got(&t, s.NamePath), got(&t, s.ArgumentNameList), got(&t, s.Signature), got(&t, s.ProcedureBody)
	if t.err != nil {
		return t.err
	}
	p, err := sql.NewProcedure(path, signature)
	if err != nil {
		return err
	}
	t.also(c.catalog.AddProcedure(p))
	c.keep = append(c.keep, p, signature)
	for i, name := range names {
		argument, err := signature.Argument(int32(i))
		t.also(err)
		if t.err == nil {
			t.also(c.variable(name, got(&t, argument.Type)))
		}
	}
	if t.err != nil {
		return t.err
	}
	out, err := sql.ParseScript(body, c.parser, &sql.ErrorMessageOptions{
		Mode: sql.ErrorMessageModeErrorMessageOneLine, Stability: sql.ErrorMessageStabilityProduction,
	})
	if err != nil {
		return fmt.Errorf("parsing the body of a procedure: %w", err)
	}
	c.keep = append(c.keep, out)
	script, err := out.Script()
	if err != nil {
		return err
	}
	return c.children(script, body)
}

// variable makes a name known as a constant of a type.
func (c *Checker) variable(name string, kind sql.Googlesql_TypeNode) error {
	value, err := sql.NewValueNull(kind)
	if err != nil {
		return err
	}
	constant, err := sql.NewSimpleConstantCreate([]string{name}, value)
	if err != nil {
		return err
	}
	c.keep = append(c.keep, value, constant)
	return c.catalog.AddConstant(constant)
}

// node analyses one node of a script.
func (c *Checker) node(n sql.ASTNode, body string) error {
	switch s := n.(type) {
	case *sql.ASTStatementList, *sql.ASTBeginEndBlock, *sql.ASTExceptionHandlerList, *sql.ASTExceptionHandler:
		return c.children(n, body)
	case *sql.ASTVariableDeclaration:
		return c.declare(s, body)
	case *sql.ASTSingleAssignment:
		return c.assign(s, body)
	case *sql.ASTAssignmentFromStruct:
		return c.assignStruct(s, body)
	case *sql.ASTIfStatement:
		return c.branch(s, body)
	case *sql.ASTRaiseStatement:
		return nil // its message is a literal, or there is none
	}
	if script, err := n.IsScriptStatement(); err != nil || script {
		return fmt.Errorf("%T is not known to this checker: %w", n, err)
	}
	text, err := source(n, body)
	if err != nil {
		return err
	}
	return c.Check(text)
}

func (c *Checker) children(n sql.ASTNode, body string) error {
	count, err := n.NumChildren()
	if err != nil {
		return err
	}
	for i := range count {
		child, err := n.Child(i)
		if err != nil {
			return err
		}
		if err := c.node(child, body); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checker) declare(s *sql.ASTVariableDeclaration, body string) error {
	var t try
	list, kind := got(&t, s.VariableList), got(&t, s.Type)
	if t.err != nil {
		return t.err
	}
	text, err := source(kind, body)
	t.also(err)
	of := c.typeOf(&t, text)
	names, err := identifiers(list)
	t.also(err)
	for _, name := range names {
		if t.err == nil {
			t.also(c.variable(name, of))
		}
	}
	if count := got(&t, s.NumChildren); t.err != nil || count < 3 {
		return t.err
	}
	value, err := s.DefaultValue()
	if err != nil {
		return err
	}
	return c.takes(value, body, []string{text})
}

func (c *Checker) assign(s *sql.ASTSingleAssignment, body string) error {
	var t try
	variable, value := got(&t, s.Variable), got(&t, s.Expression)
	if t.err != nil {
		return t.err
	}
	kinds, err := c.kinds([]*sql.ASTIdentifier{variable})
	if err != nil {
		return err
	}
	return c.takes(value, body, kinds)
}

func (c *Checker) assignStruct(s *sql.ASTAssignmentFromStruct, body string) error {
	var t try
	list, value := got(&t, s.Variables), got(&t, s.StructExpression)
	if t.err != nil {
		return t.err
	}
	count, err := list.NumChildren()
	if err != nil {
		return err
	}
	var variables []*sql.ASTIdentifier
	for i := range count {
		v, err := list.IdentifierList(i)
		if err != nil {
			return err
		}
		variables = append(variables, v)
	}
	kinds, err := c.kinds(variables)
	if err != nil {
		return err
	}
	return c.takes(value, body, kinds)
}

func (c *Checker) branch(s *sql.ASTIfStatement, body string) error {
	var t try
	condition, then := got(&t, s.Condition), got(&t, s.ThenList)
	if t.err != nil {
		return t.err
	}
	if err := c.takes(condition, body, []string{"BOOL"}); err != nil {
		return err
	}
	if count, err := s.NumChildren(); err != nil || count != 2 {
		return fmt.Errorf("an IF with ELSE is not known to this checker: %w", err)
	}
	return c.children(then, body)
}

// kinds returns the types of variables.
func (c *Checker) kinds(variables []*sql.ASTIdentifier) ([]string, error) {
	var out []string
	for _, v := range variables {
		name, err := v.GetAsString()
		if err != nil {
			return nil, err
		}
		kind, err := c.kindOf(name)
		if err != nil {
			return nil, err
		}
		out = append(out, kind)
	}
	return out, nil
}

// takes analyses an expression and requires its type, or those of its fields.
func (c *Checker) takes(n sql.ASTNode, body string, want []string) error {
	text, err := source(n, body)
	if err != nil {
		return err
	}
	have, err := c.kindOf(text)
	if err != nil {
		return err
	}
	if len(want) > 1 {
		// A field is "name TYPE"; the templates put no types with blanks there.
		fields := strings.Split(strings.TrimSuffix(strings.TrimPrefix(have, "STRUCT<"), ">"), ", ")
		for i := range fields {
			fields[i] = fields[i][strings.LastIndexByte(fields[i], ' ')+1:]
		}
		have = strings.Join(fields, ", ")
	}
	if have != strings.Join(want, ", ") {
		return fmt.Errorf("%s is %s, not %s", begin(text), have, strings.Join(want, ", "))
	}
	return nil
}

// kindOf analyses an expression and returns the name of its type.
func (c *Checker) kindOf(expression string) (string, error) {
	c.Analysed++
	out, err := sql.AnalyzeExpression(expression, c.options, c.catalog, c.types)
	if err != nil {
		return "", fmt.Errorf("analysing %s: %w", begin(expression), err)
	}
	c.keep = append(c.keep, out)
	resolved, err := out.ResolvedExpr()
	if err != nil {
		return "", err
	}
	kind, err := resolved.Type()
	if err != nil {
		return "", err
	}
	return kind.DebugString(false)
}

func identifiers(list *sql.ASTIdentifierList) ([]string, error) {
	count, err := list.NumChildren()
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range count {
		id, err := list.IdentifierList(i)
		if err != nil {
			return nil, err
		}
		name, err := id.GetAsString()
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

// source returns the text of a node.
func source(n sql.ASTNode, body string) (string, error) {
	at, err := n.Location()
	if err != nil {
		return "", err
	}
	return at.GetTextFrom(body)
}
