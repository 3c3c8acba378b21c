// Package arrows holds no code. Its tests read the module as `go list` sees it
// and fail, with the reason, when a package imports what it must not know or
// when the code outgrows its budget. docs/architecture.md has the same arrows
// in prose.
package arrows
