package duckdb

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"
)

// run is one execution of a procedure on a connection of its own.
type run struct {
	conn      *sql.Conn
	types     map[string]string // by variable, GoogleSQL's names
	variables map[string]string // DuckDB's text; @@row_count and @@now too
	failed    error             // what RAISE without arguments raises again
	turn      func()            // called before each statement
}

// block executes tokens that are statements, each with its semicolon.
func (r *run) block(ctx context.Context, ts []token) error {
	for len(ts) > 0 {
		n, err := r.statement(ctx, ts)
		if err != nil {
			return err
		}
		ts = ts[n:]
	}
	return nil
}

// statement executes the first statement of ts and returns its length.
func (r *run) statement(ctx context.Context, ts []token) (int, error) {
	switch {
	case phrase(ts, 0, "BEGIN") && !phrase(ts, 1, "TRANSACTION"):
		n := length(ts)
		return n, r.guarded(ctx, ts[1:n-2])
	case ts[0].is("IF"):
		n := length(ts)
		then := 1
		for !ts[then].is("THEN") {
			then++
		}
		if yes, err := r.isTrue(ctx, ts[1:then]); err != nil || !yes {
			return n, err
		}
		return n, r.block(ctx, ts[then+1:n-3])
	}
	n := 0
	for !ts[n].is(";") {
		n++
	}
	return n + 1, r.simple(ctx, ts[:n])
}

// length returns the number of tokens of a BEGIN ... END; or IF ... END IF;
func length(ts []token) int {
	depth := 0
	for i := range ts {
		switch {
		case ts[i].is("CASE"), ts[i].is("BEGIN") && !phrase(ts, i+1, "TRANSACTION"):
			depth++
		case ts[i].is("IF") && (i == 0 || !ts[i-1].is("END")) && !phrase(ts, i+1, "NOT", "EXISTS"):
			depth++
		case ts[i].is("END"):
			if depth--; depth == 0 {
				for !ts[i].is(";") {
					i++
				}
				return i + 1
			}
		}
	}
	return len(ts)
}

// guarded executes the inside of BEGIN ... EXCEPTION WHEN ERROR THEN ... END.
func (r *run) guarded(ctx context.Context, ts []token) error {
	for i := range ts {
		if !phrase(ts, i, "EXCEPTION", "WHEN", "ERROR", "THEN") {
			continue
		}
		err := r.block(ctx, ts[:i])
		if err == nil {
			return nil
		}
		r.failed = err
		return r.block(ctx, ts[i+4:])
	}
	return r.block(ctx, ts)
}

// simple executes a statement without statements in it, semicolon left out.
func (r *run) simple(ctx context.Context, ts []token) error {
	switch {
	case ts[0].is("DECLARE"):
		return r.declare(ctx, ts[1:])
	case ts[0].is("RAISE") && len(ts) == 1:
		return r.failed
	case ts[0].is("RAISE"):
		return fmt.Errorf("raised: %s", ts[len(ts)-1].text)
	}
	r.turn()
	if ts[0].is("SET") {
		return r.set(ctx, ts[1:])
	}
	result, err := r.conn.ExecContext(ctx, translate(ts, r.variables))
	switch {
	case err != nil && ts[0].is("ROLLBACK"):
		return nil // nothing to roll back: a COMMIT that fails has done it
	case err != nil:
		return fmt.Errorf("executing %s %s: %w", ts[0].text, ts[1].text, err)
	}
	n, err := result.RowsAffected()
	r.variables["@@row_count"] = strconv.FormatInt(n, 10)
	return err
}

// declare reads name, name TYPE [DEFAULT expression].
func (r *run) declare(ctx context.Context, ts []token) error {
	i := 0
	for ts[i+1].is(",") {
		i += 2
	}
	kind, value := ts[i+1].text, []any{nil}
	if phrase(ts, i+2, "DEFAULT") {
		var err error
		if value, err = r.query(ctx, ts[i+3:]); err != nil {
			return err
		}
	}
	for ; i >= 0; i -= 2 {
		r.types[ts[i].text] = kind
		r.assign(ts[i].text, value[0])
	}
	return nil
}

// set reads name = expression, or (names) = (SELECT AS STRUCT ...).
func (r *run) set(ctx context.Context, ts []token) error {
	names, from := [][]token{ts[:1]}, 2
	if ts[0].is("(") {
		end := closing(ts, 0)
		names, from = split(ts[1:end]), end+2
		ts = ts[:len(ts)-1] // the bracket of the subquery
		from++
	}
	values, err := r.query(ctx, ts[from:])
	if err != nil {
		return err
	}
	if len(values) != len(names) {
		return fmt.Errorf("setting %d variables to %d values", len(names), len(values))
	}
	for i, name := range names {
		r.assign(name[0].text, values[i])
	}
	return nil
}

// query returns the only row of a SELECT, or of an expression. No row is NULL.
func (r *run) query(ctx context.Context, ts []token) ([]any, error) {
	text := translate(ts, r.variables)
	if !ts[0].is("SELECT") {
		text = "SELECT " + text
	}
	rows, err := r.conn.QueryContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]any, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
	}
	return values, rows.Err()
}

// assign keeps a variable as the literal that stands for it.
func (r *run) assign(name string, value any) {
	kind := renamed(token{word, r.types[name]})
	switch v := value.(type) {
	case nil:
		r.variables[name] = "CAST(NULL AS " + kind + ")"
	case time.Time:
		layout := "2006-01-02 15:04:05.999999"
		if kind == "DATE" {
			layout = time.DateOnly
		}
		r.variables[name] = kind + " '" + v.Format(layout) + "'"
	default:
		r.variables[name] = fmt.Sprintf("CAST(%v AS %s)", v, kind)
	}
}

// isTrue evaluates a condition; NULL is false.
func (r *run) isTrue(ctx context.Context, ts []token) (bool, error) {
	values, err := r.query(ctx, ts)
	if err != nil {
		return false, err
	}
	yes, _ := values[0].(bool)
	return yes, nil
}
