package duckdb

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// seamBytes is what each query is said to read.
const seamBytes = 1 << 20

// Seam answers an audit as BigQuery's client does.
type Seam struct {
	*Warehouse
	Now func() time.Time
}

// Estimate implements audit.Warehouse.
func (s Seam) Estimate(context.Context, warehouse.Query) (int64, error) { return seamBytes, nil }

// Query implements audit.Warehouse.
func (s Seam) Query(ctx context.Context, q warehouse.Query, maxBytes int64) ([]warehouse.Row, int64, error) {
	if maxBytes < seamBytes {
		return nil, 0, fmt.Errorf("running %s: it would bill %d bytes", q.Name, seamBytes)
	}
	rows, err := s.Run(ctx, q, s.Now())
	return rows, seamBytes, err
}

// Run executes a query in GoogleSQL at a time.
func (w *Warehouse) Run(ctx context.Context, q warehouse.Query, now time.Time) ([]warehouse.Row, error) {
	w.executed.Store(q.Name, true)
	parameters := map[string]string{"@@now": stamp(now)}
	for name, value := range q.Params {
		text, err := parameter(value)
		if err != nil {
			return nil, fmt.Errorf("running %s: parameter @%s: %w", q.Name, name, err)
		}
		parameters["@"+name] = text
	}
	rows, err := w.Query(ctx, q.SQL, parameters)
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", q.Name, err)
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	var out []warehouse.Row
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make(warehouse.Row)
		for i, c := range columns {
			row[c.Name()] = value(values[i], c.DatabaseTypeName())
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// parameter writes a value of a query as DuckDB's text.
func parameter(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'", nil
	case int64:
		return fmt.Sprint(v), nil
	case time.Time:
		return stamp(v), nil
	case warehouse.Date:
		return "DATE '" + string(v) + "'", nil
	case []warehouse.Extent:
		return extentsText(v), nil
	default:
		return "", fmt.Errorf("no parameter is made of %T", v)
	}
}

// extentsText is a subquery with the columns that an array of struct would give.
func extentsText(extents []warehouse.Extent) string {
	values := []string{"('', '', 0, 0, 0)"} // types the columns, and is left out
	for _, e := range extents {
		values = append(values, fmt.Sprintf("('%s', '%s', %d, %d, %d)", e.Cluster, e.TopicID, e.Partition, e.From, e.To))
	}
	return "(SELECT * FROM (VALUES " + strings.Join(values, ", ") +
		") AS v(kafka_cluster, kafka_topic_id, kafka_partition, from_offset, to_offset) WHERE kafka_cluster <> '')"
}

// value turns DuckDB's value into one of warehouse.Row.
func value(v any, kind string) any {
	switch v := v.(type) {
	case int32:
		return int64(v)
	case *big.Int: // of SUM
		return v.Int64()
	case time.Time:
		if kind == "DATE" {
			return warehouse.Date(v.Format(time.DateOnly))
		}
		return v
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = value(element, "")
		}
		return out
	case map[string]any:
		row := make(warehouse.Row)
		for name, member := range v {
			row[name] = value(member, "")
		}
		return row
	default:
		return v
	}
}
