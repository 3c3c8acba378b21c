// Package remote is BigQuery itself, behind Google's client: it runs what
// package warehouse renders, and reads back what is there.
//
// The client library repeats what may pass, a refused connection included,
// until its context ends: every call wants a context with a deadline. Errors
// say which permission, dataset or figure is missing; nothing here logs.
package remote
