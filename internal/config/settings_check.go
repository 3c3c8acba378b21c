package config

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

var clusterAlias = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// checkSettings puts the settings into their normal form and reports what
// cannot work. Routes are not looked at.
func (c *Config) checkSettings(p *problems) {
	for _, f := range fields(&c.Settings, "envconfig") {
		*p = append(*p, f.check("")...)
	}
	c.checkBrokers(p)
	c.checkAuth(p)
	if !clusterAlias.MatchString(c.Cluster) {
		p.add("BRIDGE_CLUSTER %q is not 1 to 63 of a-z, 0-9 and -", c.Cluster)
	}
	if c.Group == "" || len(c.Group) > 249 || strings.ContainsFunc(c.Group, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		p.add("BRIDGE_GROUP %q is not 1 to 249 printable characters without spaces", c.Group)
	}
	if c.Project != "" && !projectID.MatchString(c.Project) {
		p.add("project %q is not a project id", c.Project)
	}
	if c.DeadLetterTopic != "" {
		if err := checkPubSubName(c.DeadLetterTopic); err != nil {
			p.add("BRIDGE_DEAD_LETTER_TOPIC %q: %v", c.DeadLetterTopic, err)
		}
	}
	c.checkDataset(p)
	if c.SessionTimeout < 6*time.Second || c.SessionTimeout > 30*time.Minute {
		p.add("BRIDGE_SESSION_TIMEOUT %v is not between 6s and 30m, what brokers accept", c.SessionTimeout)
	}
	if c.PublishConnections < 1 || c.PublishConnections > 64 {
		p.add("BRIDGE_PUBLISH_CONNECTIONS %d is not between 1 and 64", c.PublishConnections)
	}
	c.checkAddresses(p)
}

// datasetPath is DATASET or PROJECT.DATASET, where the project of old
// organisations may have a domain.
var datasetPath = regexp.MustCompile(`^(([a-z0-9][a-z0-9.-]*:)?[a-z][a-z0-9-]{4,28}[a-z0-9]\.)?[A-Za-z0-9_]{1,250}$`)

// checkDataset checks where BigQuery's tables are.
func (c *Config) checkDataset(p *problems) {
	if c.Dataset != "" && !datasetPath.MatchString(c.Dataset) {
		p.add("BRIDGE_DATASET %q is not DATASET or PROJECT.DATASET, a dataset being letters, digits and _", c.Dataset)
	}
	if c.BigQueryEmulator != "" && !isHostPort(c.BigQueryEmulator) {
		p.add("BIGQUERY_EMULATOR_HOST %q is not host:port", c.BigQueryEmulator)
	}
}

// checkBrokers trims and checks the bootstrap list and who may hear plaintext.
func (c *Config) checkBrokers(p *problems) {
	if len(c.Brokers) == 0 {
		p.add("BRIDGE_BROKERS is required: bootstrap brokers as host:port, comma separated")
	}
	c.Brokers = trimmed(c.Brokers)
	loopback := true
	for _, b := range c.Brokers {
		if !isHostPort(b) {
			p.add("BRIDGE_BROKERS has %q, which is not host:port", b)
			continue
		}
		loopback = loopback && isLoopback(b)
	}
	if c.Auth == AuthPlaintext && !loopback && !c.AllowPlaintext {
		p.add("BRIDGE_AUTH plaintext sends every record unencrypted to brokers that are not loopback; use tls or set BRIDGE_ALLOW_PLAINTEXT=true")
	}
}

// checkAddresses checks where Pub/Sub is.
func (c *Config) checkAddresses(p *problems) {
	if e := c.PubSubEndpoint; e != "" {
		if _, _, err := net.SplitHostPort(e); err != nil {
			e = net.JoinHostPort(strings.Trim(e, "[]"), "443")
		}
		if !isHostPort(e) {
			p.add("BRIDGE_PUBSUB_ENDPOINT %q is not host:port", c.PubSubEndpoint)
		}
		c.PubSubEndpoint = e
	}
	if c.EmulatorHost == "" {
		return
	}
	if !isHostPort(c.EmulatorHost) {
		p.add("PUBSUB_EMULATOR_HOST %q is not host:port", c.EmulatorHost)
	}
	if c.PubSubEndpoint != "" {
		p.add("BRIDGE_PUBSUB_ENDPOINT and PUBSUB_EMULATOR_HOST are both set; unset one")
	}
}

// trimmed returns a copy of list without the blanks around its entries.
func trimmed(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.TrimSpace(s)
	}
	return out
}

var hostName = regexp.MustCompile(`^[a-zA-Z0-9_]([a-zA-Z0-9_.-]*[a-zA-Z0-9_.])?$`)

func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err == nil || len(host) <= 253 && hostName.MatchString(host)
}

// isLoopback reports whether a host:port can be this machine only, by its
// words alone: names other than localhost would have to be looked up.
func isLoopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
