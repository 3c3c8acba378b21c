package remote

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"cloud.google.com/go/bigquery"
	"cloud.google.com/go/civil"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// param turns a value of warehouse.Query into one of BigQuery's client, which
// knows arrays of structs by the tags of their fields. An empty array arrives
// as NULL, of which UNNEST makes no rows as well.
func param(value any) (any, error) {
	switch v := value.(type) {
	case string, bool, int64, float64, time.Time, []warehouse.Extent:
		return v, nil
	case warehouse.Date:
		d, err := civil.ParseDate(string(v))
		if err != nil {
			return nil, fmt.Errorf("reading a date: %w", err)
		}
		return d, nil
	default:
		return nil, fmt.Errorf("no parameter is made of %T", value)
	}
}

func rowOf(values map[string]bigquery.Value) (warehouse.Row, error) {
	row := make(warehouse.Row, len(values))
	for name, value := range values {
		v, err := valueOf(value)
		if err != nil {
			return nil, fmt.Errorf("reading column %s: %w", name, err)
		}
		row[name] = v
	}
	return row, nil
}

// valueOf turns a value of BigQuery's client into one of warehouse.Row.
func valueOf(value bigquery.Value) (any, error) {
	switch v := value.(type) {
	case nil, string, bool, int64, float64, []byte, time.Time:
		return v, nil
	case civil.Date:
		return warehouse.Date(v.String()), nil
	case *big.Rat: // NUMERIC
		if v.IsInt() && v.Num().IsInt64() {
			return v.Num().Int64(), nil
		}
		f, _ := v.Float64()
		return f, nil
	case map[string]bigquery.Value:
		return rowOf(v)
	case []bigquery.Value:
		out := make([]any, 0, len(v))
		for _, element := range v {
			e, err := valueOf(element)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	default:
		return nil, fmt.Errorf("no value is made of %T", value)
	}
}

// label makes the value of a label: at most 63 of lower-case letters, digits,
// _ and -.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(s))
	return s[:min(len(s), 63)]
}

// uncommented returns a statement without the comment lines in front of it.
func uncommented(sql string) string {
	for strings.HasPrefix(sql, "--") {
		_, sql, _ = strings.Cut(sql, "\n")
	}
	return sql
}
