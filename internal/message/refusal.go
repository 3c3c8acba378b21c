package message

// Reason is the value of the attribute mskbridge_reason of a parked message.
type Reason string

const (
	// TooLarge: the message does not fit one Pub/Sub request.
	TooLarge Reason = "too_large"
	// Refused: Pub/Sub refused the message although it keeps every limit we know.
	Refused Reason = "refused"
	// Undecodable: the value is not what the route's format asks for.
	Undecodable Reason = "undecodable"
	// Skipped: an operator gave up a range of offsets, of which the message is the
	// first. It has no data.
	Skipped Reason = "skipped"
)

// Refusal says why a record can never be published as it is. Detail is one
// clause for people and carries neither payload nor key.
type Refusal struct {
	Reason Reason
	Detail string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }
