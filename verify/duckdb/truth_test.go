package duckdb

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

func keyParts(id message.ID) []string { return strings.Split(id.String(), "/") }

// timestampOf is the timestamp as a TIMESTAMP can hold it.
func timestampOf(r record) (time.Time, bool) {
	t := time.UnixMilli(r.kafka.TimestampMs).UTC()
	return t, r.kafka.TimestampMs != -1 && t.Year() >= 1 && t.Year() <= 9999
}

func dateOf(r record) string {
	t, ok := timestampOf(r)
	if date := t.Format(time.DateOnly); ok && date >= message.DateFirst && date < message.DateNext {
		return date
	}
	return message.DateFloor
}

// row is a record as one line of text.
func (w *world) row(r record) string {
	stamp, key, value := "none", "none", "none"
	if t, ok := timestampOf(r); ok {
		stamp = strconv.FormatInt(t.UnixMilli(), 10)
	}
	if k := w.keyOf(r); k != nil {
		key = hex.EncodeToString(k)
	}
	if r.kafka.Value != nil {
		value = hex.EncodeToString(r.kafka.Value)
	}
	return fmt.Sprintf("%s %s %s %s %d %d %d %s %s %s %s", r.id, r.id.Cluster, r.id.Topic, keyParts(r.id)[3],
		r.id.Partition, r.id.Offset, r.id.LeaderEpoch, stamp, dateOf(r), key, value)
}

// rows is the SQL of the same line.
func (w *world) rows() string {
	return `concat_ws(' ', idempotency_key, kafka_cluster, kafka_topic, kafka_topic_id, kafka_partition, kafka_offset,
		kafka_leader_epoch, COALESCE(CAST(epoch_ms(kafka_timestamp) AS VARCHAR), 'none'), kafka_date,
		COALESCE(lower(hex(kafka_key)), 'none'), ` + w.value() + `)`
}

// value is the SQL of the value.
func (w *world) value() string {
	column := "data"
	switch w.spec.Format {
	case warehouse.EnvelopeBytes:
		column = "value"
	case warehouse.EnvelopeJSON:
		column = "encode(CAST(value AS VARCHAR))"
	}
	return "COALESCE(lower(hex(" + column + ")), 'none')"
}

// currentRow and currentRows are the line of a current row.
func (w *world) currentRow(r record) string {
	value := "none"
	if r.kafka.Value != nil {
		value = hex.EncodeToString(r.kafka.Value)
	}
	return fmt.Sprintf("%s %s %d %d %d %s", hex.EncodeToString(w.keyOf(r)), keyParts(r.id)[3], r.id.Partition, r.id.LeaderEpoch, r.id.Offset, value)
}

func (w *world) currentRows() string {
	return "concat_ws(' ', lower(hex(kafka_key)), kafka_topic_id, kafka_partition, kafka_leader_epoch, kafka_offset, " + w.value() + ")"
}

// finding is what differs from the truth, and how often.
type finding struct {
	what string
	n    int
}

// compare looks for all differences between the objects and the truth.
func (w *world) compare(ctx context.Context, tb testing.TB, b *Warehouse) []finding {
	tb.Helper()
	var all, current []string
	latest := make(map[string]record)
	for _, r := range w.records {
		all = append(all, w.row(r))
		if key := w.keyOf(r); key != nil {
			if best, ok := latest[string(key)]; !ok || w.beats(r, best) {
				latest[string(key)] = r
			}
		}
	}
	for _, r := range latest {
		if r.kafka.Value != nil {
			current = append(current, w.currentRow(r))
		}
	}
	type look struct {
		what string
		want []string
		sql  string
	}
	looks := []look{
		{"log", all, "SELECT " + w.rows() + " FROM " + b.Table("log")},
		{"dedup view", all, "SELECT " + w.rows() + " FROM " + b.Table("dedup")},
	}
	if !w.spec.NoCurrent {
		looks = append(looks,
			look{"current", current, "SELECT " + w.currentRows() + " FROM " + b.Table("current")},
			look{"latest", current, "SELECT " + w.currentRows() + " FROM " + b.Table("latest")})
	}
	var out []finding
	for _, l := range looks {
		out = append(out, differ(l.what, l.want, texts(ctx, tb, b.DB, l.sql))...)
	}
	if n := count(ctx, tb, b.DB, "SELECT count(*) FROM "+b.Table("rejects")); n != w.foreign {
		out = append(out, finding{fmt.Sprintf("rejects: %d, want %d", n, w.foreign), 1})
	}
	return out
}

// differ counts what is missing, too much or repeated.
func differ(what string, want, got []string) []finding {
	left := make(map[string]int)
	for _, s := range want {
		left[s]++
	}
	seen := make(map[string]bool)
	missing, strange, repeated := 0, 0, 0
	for _, s := range got {
		switch {
		case left[s] > 0:
			left[s]--
			seen[s] = true
		case seen[s]:
			repeated++
		default:
			strange++
		}
	}
	for _, n := range left {
		missing += n
	}
	return slices.DeleteFunc([]finding{{what + ": missing", missing}, {what + ": wrong", strange}, {what + ": repeated", repeated}},
		func(f finding) bool { return f.n == 0 })
}

func texts(ctx context.Context, tb testing.TB, db *sql.DB, query string) []string {
	tb.Helper()
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			tb.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}

func count(ctx context.Context, tb testing.TB, db *sql.DB, query string) int {
	tb.Helper()
	var n int
	if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return n
}
