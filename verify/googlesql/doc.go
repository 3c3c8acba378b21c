// Package googlesql parses and analyses the generated SQL with Google's own
// analyzer, the bodies of procedures included, and adds rules for what it lets
// pass and BigQuery does not (rules.go). It executes nothing: verify/duckdb
// does.
//
// It is a module of its own because the analyzer is one very large package: its
// first build takes minutes and 7 GB of memory.
package googlesql
