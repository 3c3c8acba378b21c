// Package fault names what can go wrong: the error classes that decide what
// happens to a batch, the events by which the bridge tells about it, and the
// exit codes with which the process ends. It imports nothing of the bridge.
package fault

// Class says what the bridge does about an error. The zero value is not a class.
type Class uint8

const (
	// Retryable errors are tried again with the same bytes, for ever.
	Retryable Class = iota + 1
	// Held errors need an operator: the route stops, keeps its position and
	// probes slowly. Anything that cannot be classified is Held, never dropped.
	Held
	// Poison is a record that Pub/Sub will never take.
	Poison
	// Fatal ends the process.
	Fatal
)

// String returns the lower-case name of the class, as used in logs and metrics.
func (c Class) String() string {
	switch c {
	case Retryable:
		return "retryable"
	case Held:
		return "held"
	case Poison:
		return "poison"
	case Fatal:
		return "fatal"
	default:
		return "unknown"
	}
}
