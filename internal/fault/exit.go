package fault

import "errors"

// Exit codes of the process. A panic is Go's own 2 with a trace.
const (
	CodeOK      = 0 // clean stop, also when work was abandoned in time
	CodeFailed  = 1 // failed, found something, or the watchdog ended it
	CodeUsage   = 2 // configuration or usage: one clear line, no network
	CodeUnknown = 3 // check or audit could not find out
)

// exitError is an error that carries the exit code of the process.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// Exit gives err an exit code. It returns nil for a nil error.
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: code, err: err}
}

// Code returns the exit code that err carries: 0 for nil, 1 for an error
// without one.
func Code(err error) int {
	if err == nil {
		return CodeOK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return CodeFailed
}
