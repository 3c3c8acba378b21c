// Package duckdb executes the generated BigQuery SQL in DuckDB, so that what it
// promises is seen and not believed. It is a module of its own: the bridge
// needs neither cgo nor an SQL engine.
//
// Text is translated token by token (translate.go), which is possible because
// the templates keep to what both have. Procedures are interpreted statement by
// statement (script.go), so that two runs can be interleaved; transactions are
// DuckDB's own, which like BigQuery's see a snapshot and fail when two change
// the same row. What only BigQuery has is not seen here: partition pruning,
// quotas, and the bill. BigQuery reports conflicts by table, DuckDB by row: the
// merge must not depend on the difference, since it updates one row of a table
// that has one.
//
// With the build tag integration there is the whole way as well, from a real
// Kafka through the bridge and the Pub/Sub emulator to the audit (end_test.go).
package duckdb
