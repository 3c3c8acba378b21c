package fault

// Answer is what an inspection found out about a question of yes or no. The
// zero value says that it could not.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota
	Yes
	No
)
