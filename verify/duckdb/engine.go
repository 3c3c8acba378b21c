package duckdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver named duckdb

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// Warehouse is a DuckDB in memory with the objects of one route.
type Warehouse struct {
	DB         *sql.DB
	procedures map[string][]token // by path, from the parameters on
	executed   sync.Map           // names of statements; runs go side by side
	audits     map[string]string
	stem       string
	format     warehouse.Format
}

// Open creates the objects of a route from its statements. The schedule and
// the audits are kept for Merge and Audit.
func Open(ctx context.Context, spec warehouse.Spec, statements []warehouse.Statement) (*Warehouse, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	w := &Warehouse{
		DB: db, procedures: make(map[string][]token),
		audits: make(map[string]string), stem: warehouse.Stem(spec.Topic), format: spec.Format,
	}
	for _, m := range append([]string{"SET TimeZone = 'UTC'", "SET threads = 1"}, macros()...) {
		if _, err := db.ExecContext(ctx, m); err != nil {
			return nil, fmt.Errorf("preparing DuckDB: %w", err)
		}
	}
	for _, s := range statements {
		switch s.Object {
		case warehouse.ObjectSchedule, warehouse.ObjectAudit:
			w.audits[s.Name] = s.SQL
		default:
			if err := w.create(ctx, s); err != nil {
				return nil, fmt.Errorf("creating %s: %w", s.Name, err)
			}
		}
	}
	return w, nil
}

// Close ends the database.
func (w *Warehouse) Close() error { return w.DB.Close() }

// Table returns the quoted name of an object of the route, such as "log".
func (w *Warehouse) Table(suffix string) string { return `"` + w.stem + "_" + suffix + `"` }

func (w *Warehouse) create(ctx context.Context, s warehouse.Statement) error {
	ts, err := scan(s.SQL)
	if err != nil {
		return err
	}
	if phrase(ts, 3, "PROCEDURE") {
		w.procedures[ts[4].text] = ts[5:]
		return nil
	}
	w.executed.Store(s.Name, true)
	_, err = w.DB.ExecContext(ctx, translate(ts[:len(ts)-1], nil))
	return err
}

// Merge executes the scheduled call at a time. Turn is called before each
// statement of the procedure and may wait; nil does not.
func (w *Warehouse) Merge(ctx context.Context, now time.Time, turn func()) error {
	ts, err := scan(w.audits["schedule_call"])
	if err != nil {
		return err
	}
	return w.call(ctx, ts, now, turn)
}

// Backfill calls the merge with a time to look back to.
func (w *Warehouse) Backfill(ctx context.Context, now, from time.Time) error {
	ts, err := scan(strings.Replace(w.audits["schedule_call"], "NULL", stamp(from), 1))
	if err != nil {
		return err
	}
	return w.call(ctx, ts, now, nil)
}

// call executes CALL `procedure`(argument);
func (w *Warehouse) call(ctx context.Context, ts []token, now time.Time, turn func()) error {
	body, ok := w.procedures[ts[1].text]
	if !ts[0].is("CALL") || !ok {
		return errors.New("calling a procedure that does not exist")
	}
	conn, err := w.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if turn == nil {
		turn = func() {}
	}
	r := &run{conn: conn, turn: turn, types: make(map[string]string), variables: map[string]string{"@@now": stamp(now)}}
	end := closing(body, 0)
	r.types[body[1].text] = body[2].text
	value, err := r.query(ctx, ts[3:len(ts)-2])
	if err != nil {
		return err
	}
	r.assign(body[1].text, value[0])
	w.executed.Store("merge_procedure", true)
	w.executed.Store("schedule_call", true)
	return r.block(ctx, body[end+2:len(body)-2])
}

// Query executes a query in GoogleSQL. Parameters are DuckDB's text; one that
// stands in UNNEST is a subquery.
func (w *Warehouse) Query(ctx context.Context, googleSQL string, parameters map[string]string) (*sql.Rows, error) {
	ts, err := scan(googleSQL)
	if err != nil {
		return nil, err
	}
	if ts[len(ts)-1].is(";") {
		ts = ts[:len(ts)-1]
	}
	return w.DB.QueryContext(ctx, translate(ts, parameters))
}

// Audit executes one of the audits by its name.
func (w *Warehouse) Audit(ctx context.Context, name string, parameters map[string]any, now time.Time) ([]warehouse.Row, error) {
	return w.Run(ctx, warehouse.Query{Name: name, SQL: w.audits[name], Params: parameters}, now)
}

// stamp is a literal that both dialects read.
func stamp(t time.Time) string {
	return "TIMESTAMP '" + t.UTC().Format("2006-01-02 15:04:05.999999") + "'"
}
