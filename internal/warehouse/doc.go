// Package warehouse makes the BigQuery SQL of a route: the table that the
// subscription writes, views that read it, the deduplicated log with the
// procedure that keeps it, the current row of each record key, and audits.
//
// Rendering is pure and deterministic: the same Spec gives the same text. It
// dials nothing. What the statements promise is executed by verify/duckdb, and
// each of them is analysed by verify/googlesql; both are modules of their own,
// so that the bridge never compiles an SQL engine.
package warehouse
