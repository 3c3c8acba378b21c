package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/config"
)

// certWarns is how long before its end a broker's certificate is warned about.
const certWarns = 21 * 24 * time.Hour

// kafka adds everything about Kafka.
func (p *preflight) kafka(in *consumer.Inspection, err error) {
	if err != nil {
		p.Add(sectionBrokers, "kafka", check.Fail, oneLine(err), "check the dialer's way to the brokers: DNS, routes, firewall")
		return
	}
	for _, b := range in.Brokers {
		p.broker(b)
	}
	p.access(in)
	if in.Err != nil {
		return // nothing below is known
	}
	p.release(in)
	for _, t := range in.Topics {
		p.topic(t)
	}
	if in.SettingsErr != nil {
		do := ""
		if p.iam() {
			do = "optional: grant kafka-cluster:DescribeTopicDynamicConfiguration on the topics"
		}
		p.Add(sectionTopics, "settings", check.Unknown, "retention and record size are not verifiable: "+oneLine(in.SettingsErr), do)
	}
	p.group(in)
}

// broker adds one address.
func (p *preflight) broker(b *consumer.BrokerInspection) {
	what := "broker " + b.Address
	if b.Node < 0 {
		what = "bootstrap " + b.Address
	}
	if b.DialErr != nil {
		finding, do := dialAdvice(b.DialErr)
		p.Add(sectionBrokers, what, check.Fail, finding, do)
		return
	}
	if b.AskErr != nil {
		finding, do := p.answerAdvice(b.AskCause, b.AskErr)
		p.Add(sectionBrokers, what, check.Fail, finding, do)
		return
	}
	finding := fmt.Sprintf("connected in %v", b.Dial.Round(100*time.Microsecond))
	if b.CertEnds.IsZero() {
		p.Add(sectionBrokers, what, check.OK, finding, "")
		return
	}
	left := b.CertEnds.Sub(p.now)
	finding += fmt.Sprintf(", certificate valid for %d days", int(left.Hours()/24))
	if left < certWarns {
		p.Add(sectionBrokers, what, check.Warn, finding, "renew the certificate of the broker, or of the authority in its chain")
		return
	}
	p.Add(sectionBrokers, what, check.OK, finding, "")
}

// access adds whether any broker lets us in, and as whom.
func (p *preflight) access(in *consumer.Inspection) {
	if in.Err != nil {
		if !slices.ContainsFunc(in.Brokers, func(b *consumer.BrokerInspection) bool { return b.DialErr == nil }) {
			p.Add(sectionBrokers, "access", check.Fail, "no broker could be reached: topics and group are not looked at", "")
			return
		}
		finding, do := p.answerAdvice(in.Cause, in.Err)
		p.Add(sectionBrokers, "access", check.Fail, finding, do)
		return
	}
	who := p.principal
	switch {
	case p.cfg.Auth == config.AuthTLS, p.cfg.Auth == config.AuthPlaintext:
		who = "User:ANONYMOUS, since auth " + p.cfg.Auth + " has no credentials"
	case who == "":
		p.Add(sectionBrokers, "access", check.OK, "let in with auth "+p.cfg.Auth+"; as whom, brokers do not tell", "")
		return
	}
	p.Add(sectionBrokers, "access", check.OK, "let in as "+who, "")
}

// answerAdvice says why a broker that was reached said nothing, and what to do.
func (p *preflight) answerAdvice(cause consumer.Cause, err error) (finding, do string) {
	switch cause {
	case consumer.Silent:
		return "takes connections and does not answer in time", "check that the address is a Kafka listener, and that nothing between drops packets (MTU, firewall)"
	case consumer.Closed:
		return "closes connections at our first words, as listeners do that want other credentials or another protocol",
			p.refusedAdvice() + "; check that the port is for auth " + p.cfg.Auth + ": on MSK 9092 is plaintext, 9094 tls and mtls, 9096 scram, 9098 iam"
	case consumer.NoCredentials:
		return "no credentials: " + oneLine(err), p.credentialsAdvice()
	case consumer.Refused:
		return "credentials refused: " + oneLine(err), p.refusedAdvice()
	case consumer.Denied:
		return "not authorized: " + oneLine(err), p.refusedAdvice()
	default:
		if finding, do := tlsAdvice(err); finding != "" {
			return finding, do // TLS 1.3 refuses a client's certificate after the handshake
		}
		return oneLine(err), "see the brokers' logs, and whether the bridge may reach every broker"
	}
}

func (p *preflight) credentialsAdvice() string {
	if !p.iam() {
		return "check the files and variables that hold the credentials"
	}
	if p.cfg.RoleARN == "" {
		return "set BRIDGE_ROLE_ARN to a role that trusts the service account, or give AWS credentials in a usual way"
	}
	return fmt.Sprintf("let the trust policy of %s allow sts:AssumeRoleWithWebIdentity to Federated accounts.google.com with StringEquals accounts.google.com:sub and accounts.google.com:aud = unique id of the service account, accounts.google.com:oaud = %s", p.cfg.RoleARN, p.cfg.RoleAudience)
}

func (p *preflight) refusedAdvice() string {
	switch p.cfg.Auth {
	case config.AuthIAM, config.AuthIAMOAuth:
		return "grant kafka-cluster:Connect on the cluster to " + p.who()
	case config.AuthScram:
		return "check user and password; on MSK the secret must be associated with the cluster"
	default:
		return "set BRIDGE_AUTH to what the listener wants"
	}
}

// iam reports whether AWS decides what we may do.
func (p *preflight) iam() bool {
	return p.cfg.Auth == config.AuthIAM || p.cfg.Auth == config.AuthIAMOAuth
}

// who names us in advice.
func (p *preflight) who() string {
	switch {
	case p.principal != "":
		return p.principal
	case p.cfg.Auth == config.AuthTLS, p.cfg.Auth == config.AuthPlaintext:
		return "User:ANONYMOUS"
	default:
		return "the bridge's principal"
	}
}

// release adds what the oldest broker lacks.
func (p *preflight) release(in *consumer.Inspection) {
	asked, fetchIDs, topicIDs := false, true, true
	for _, b := range in.Brokers {
		if b.Node >= 0 && b.DialErr == nil && b.AskErr == nil {
			asked, fetchIDs, topicIDs = true, fetchIDs && b.FetchIDs, topicIDs && b.TopicIDs
		}
	}
	switch {
	case !asked: // their rows say why
	case fetchIDs:
		p.Add(sectionBrokers, "version", check.OK, "3.1 or later by its API: fetches carry topic ids", "")
	case topicIDs:
		p.Add(sectionBrokers, "version", check.Warn, "before 3.1 by its API: topic ids come with metadata alone, so records around a recreation of a topic may get the wrong one", "upgrade brokers to 3.1 or later")
	default:
		p.Add(sectionBrokers, "version", check.Warn, "before 2.8 by its API: no topic ids, so the records of a recreated topic get keys that were used before", "upgrade brokers to 2.8 or later, better 3.1; do not recreate topics under a name in use")
	}
}
