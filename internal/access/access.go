// Package access holds what it takes to be let in by the brokers: credentials,
// TLS material, and which addresses may be dialled at all. TLS is always
// verified, from version 1.2 on; there is no setting that turns it off and no
// fall-back to plaintext.
//
// What it makes is asked at every handshake and refreshes itself, so that a
// renewed certificate, a changed password or a role that was granted again
// needs no restart. Its errors say in one clause what was refused and what to
// do, and never carry a secret. Everything is safe for concurrent use.
package access

// named is an error with a clause for people. The clause has nothing in it that
// differs from one attempt to the next, so that a lasting trouble reads the
// same each time it is seen.
type named struct {
	clause string
	err    error
}

func (n *named) Error() string { return n.clause }
func (n *named) Unwrap() error { return n.err }
