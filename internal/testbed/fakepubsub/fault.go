package fakepubsub

import (
	"time"

	"google.golang.org/grpc/codes"
)

// Request is what a Script sees of one publish request. It is valid during the
// call only.
type Request struct {
	Topic string // full name
	// Key is the idempotency key of the first message, "" when it has none.
	// With Topic and Attempt it names the request whatever the order of arrival.
	Key string
	// Attempt counts the requests to Topic that began with Key, from 1.
	Attempt  int
	Bytes    int // of the encoded request
	Messages []Message
}

// Any reports whether f holds for one of the messages.
func (r *Request) Any(f func(*Message) bool) bool {
	for i := range r.Messages {
		if f(&r.Messages[i]) {
			return true
		}
	}
	return false
}

// Fault is what happens to one request. The zero Fault stores it and answers
// with one id per message. The steps: wait Delay; without Stored, Cut, Hang or
// Code end it here; store; wait Hold; Cut, Hang, Code, else ids.
type Fault struct {
	Delay time.Duration // before anything is stored
	Hold  time.Duration // between storing and answering
	// Code is answered in place of ids, with Text.
	Code codes.Code
	Text string
	// Stored lets the request be stored although Code, Hang or Cut follow.
	Stored bool
	// Hang never answers: the call ends with its context or with the server.
	Hang bool
	// Cut closes the connection in place of an answer.
	Cut bool
	// Ids is added to the number of ids answered: -1 is one too few.
	Ids int //nolint:revive // message_ids, as Pub/Sub spells them
}

// ends reports whether the request fails without reaching the store.
func (f *Fault) ends() bool { return !f.Stored && (f.Cut || f.Hang || f.Code != codes.OK) }

// refuses reports whether the caller never gets a good answer.
func (f *Fault) refuses() bool { return f.Cut || f.Hang || f.Code != codes.OK || f.Ids != 0 }

// Script decides what happens to a request. It is called from many goroutines
// at once and must not block. To be independent of the order of arrival, it
// should look at Topic, Key and Attempt only.
type Script func(*Request) Fault
