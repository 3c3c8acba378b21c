package sink

import (
	"errors"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// classify says what to do about the error of one Publish RPC. The caller has
// made sure that its own context lives: a server's Canceled is retried like any
// other lost answer. Poison means that the request holds a record which the
// server refuses; only a request of one names it.
func classify(err error) fault.Class {
	if _, ok := errors.AsType[*idsError](err); ok {
		return fault.Retryable
	}
	switch codeOf(err) {
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted,
		codes.Aborted, codes.Internal, codes.Unavailable:
		return fault.Retryable
	case codes.InvalidArgument:
		return fault.Poison
	default:
		return fault.Held
	}
}

// codeOf returns the code of the gRPC status that err wraps, Unknown for none.
func codeOf(err error) codes.Code {
	s, _ := status.FromError(err)
	return s.Code()
}

// advice says in one clause what an operator can do so that topic takes
// messages again.
func advice(err error, topic string) string {
	code := codeOf(err)
	do := "destination answers what nobody expects; ask Pub/Sub about " + topic
	switch code {
	case codes.NotFound:
		do = "create topic " + topic
	case codes.PermissionDenied:
		do = "grant roles/pubsub.publisher on " + topic
	case codes.Unauthenticated:
		do = "give the bridge a valid Google identity that may publish to " + topic
	case codes.FailedPrecondition:
		do = "repair topic " + topic + " (encryption key, schema, storage policy or ingestion)"
	case codes.InvalidArgument:
		do = "let topic " + topic + " take the messages (schema, ordering, size)"
	default:
	}
	return code.String() + ": " + do
}

// textLimit bounds what is kept of a server's text, in bytes.
const textLimit = 200

// safeText describes err without anything of a record in it. A server may echo
// what it refuses, so its own words are kept only for codes that it answers
// without looking at the messages.
func safeText(err error) string {
	if ids, ok := errors.AsType[*idsError](err); ok {
		return ids.Error()
	}
	if refusal, ok := errors.AsType[*message.Refusal](err); ok {
		return refusal.Error() // our own words
	}
	if s, ok := errors.AsType[*storeError](err); ok {
		return printable("store: " + s.Error())
	}
	s, ok := status.FromError(err)
	if !ok {
		return codes.Unknown.String()
	}
	switch s.Code() {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted,
		codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
	default:
		return s.Code().String()
	}
	return s.Code().String() + ": " + printable(s.Message())
}

// printable makes text one line of bounded length.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if len(text) > textLimit {
		text = strings.ToValidUTF8(text[:textLimit], "") + "..."
	}
	return text
}
