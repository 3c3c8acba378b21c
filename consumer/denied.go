package consumer

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// requestID stands before what Amazon MSK says and differs each time.
var requestID = regexp.MustCompile(`\[[0-9a-fA-F-]{36}\]: `)

// denied says in one clause who was refused what and what to do about it; topic
// is "" when the error is about no one topic. It is "" for an error that is not
// one of access.
func (c *Consumer) denied(topic string, err error) string {
	who := cmp.Or(c.opts.Auth.Principal, "this client")
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return fmt.Sprintf("brokers refuse the TLS handshake of %s (%v): check the client certificate and that its authority is registered with the cluster", who, alert)
	}
	if none, ok := errors.AsType[credentialsError](err); ok {
		return none.Error()
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch cause := causeOf(err); {
	case untrusted:
		return bare(err)
	case cause == Refused:
		return fmt.Sprintf("brokers refuse %s (%s): check kafka-cluster:Connect, region and clock for iam, user and password for scram, and the port",
			who, requestID.ReplaceAllString(bare(err), ""))
	case cause != Denied:
		return ""
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Sprintf("%s may not use group %s: grant kafka-cluster:DescribeGroup and AlterGroup on it, or the ACL Read", who, c.opts.Group)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		what := "topic " + topic
		if topic == "" {
			what = "a topic of a route" // the answer to a commit has ids alone
		}
		return fmt.Sprintf("%s may not read %s: grant kafka-cluster:DescribeTopic and ReadData on it, or the ACL Read", who, what)
	default:
		return who + " may not use the cluster: grant kafka-cluster:Connect on it"
	}
}

// bare is the text of err without what those put in front who passed it on: the
// same refusal reads the same, whoever met it.
func bare(err error) string {
	for next := errors.Unwrap(err); next != nil && strings.HasSuffix(err.Error(), next.Error()); next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

// noteGroup remembers what is wrong with the connection or the group.
func (c *Consumer) noteGroup(doing string, err error) {
	reason := c.denied("", err)
	refused := reason != ""
	if c.troubles.note("", cmp.Or(reason, doing+err.Error()), refused) && refused {
		c.opts.Events(fault.Event{Kind: fault.AccessRefused, Partition: -1, Reason: reason, Err: err})
	}
}

// noteHealed forgets the trouble of a topic, "" for the group.
func (c *Consumer) noteHealed(topic string) {
	if c.troubles.healed(topic) {
		c.opts.Events(fault.Event{Kind: fault.AccessGranted, Topic: topic, Partition: -1, Reason: "brokers let us work again"})
	}
}
