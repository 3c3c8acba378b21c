package fault

// OperatorError is an error that stays until an operator does something: Held.
type OperatorError struct {
	Advice string // one clause that says what to do, without secrets
	Err    error
}

func (e *OperatorError) Error() string { return e.Advice + ": " + e.Err.Error() }
func (e *OperatorError) Unwrap() error { return e.Err }

// Operator says what an operator can do about err. It returns nil for a nil error.
func Operator(advice string, err error) error {
	if err == nil {
		return nil
	}
	return &OperatorError{Advice: advice, Err: err}
}
