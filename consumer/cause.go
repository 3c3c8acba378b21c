package consumer

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Cause says in which way Kafka left a question without an answer; each calls
// for another remedy.
type Cause uint8

// The causes.
const (
	Answered      Cause = iota // there was an answer
	Silent                     // no answer in time
	Closed                     // connections end at our first words: other protocol, or no or wrong credentials
	NoCredentials              // there was nothing to authenticate with
	Refused                    // our credentials are
	Denied                     // we were let in, but may not
	Missing                    // it does not exist
	Failed                     // everything else
)

func causeOf(err error) Cause {
	is := func(some ...error) bool {
		return slices.ContainsFunc(some, func(e error) bool { return errors.Is(err, e) })
	}
	var none credentialsError
	var closed *kgo.ErrFirstReadEOF
	var slow net.Error
	switch {
	case err == nil:
		return Answered
	case errors.As(err, &none):
		return NoCredentials
	case is(kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed):
		return Denied
	case is(kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.GroupIDNotFound):
		return Missing
	case is(kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState):
		return Refused
	case errors.As(err, &closed), is(io.EOF):
		return Closed
	case is(context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return Silent
	default:
		return Failed
	}
}
