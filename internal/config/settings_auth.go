package config

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
)

var (
	roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$`)
	region  = regexp.MustCompile(`^[a-z]+(-[a-z0-9]+)+-[0-9]+$`)
	// brokerRegion finds the region in the name that Amazon MSK gave a broker,
	// such as b-1.orders.1a2b3c.c2.kafka.eu-west-1.amazonaws.com.
	brokerRegion = regexp.MustCompile(`\.kafka(?:-serverless)?\.([a-z]+(?:-[a-z0-9]+)+-[0-9]+)\.`)
)

// checkAuth checks the settings of access. One that has no effect with the
// chosen authentication is refused: somebody believes that it has.
func (c *Config) checkAuth(p *problems) {
	for _, f := range fields(&c.Settings, "envconfig") {
		auths := authsOf(f.name)
		if s := f.text(); s != "" && s != f.preset && auths != nil && !slices.Contains(auths, c.Auth) {
			p.add("%s has no effect with BRIDGE_AUTH %s; it belongs to %s", f.name, c.Auth, strings.Join(auths, ", "))
		}
	}
	switch c.Auth {
	case AuthIAM, AuthIAMOAuth:
		c.checkIAM(p)
	case AuthScram:
		if c.ScramUser == "" {
			p.add("BRIDGE_SCRAM_USER is required with BRIDGE_AUTH scram")
		}
		if (c.ScramPassword == Secret{}) == (c.ScramPasswordFile == "") {
			p.add("BRIDGE_AUTH scram needs one of BRIDGE_SCRAM_PASSWORD and BRIDGE_SCRAM_PASSWORD_FILE")
		}
	case AuthMTLS:
		if c.TLSCertFile == "" || c.TLSKeyFile == "" {
			p.add("BRIDGE_AUTH mtls needs BRIDGE_TLS_CERT_FILE and BRIDGE_TLS_KEY_FILE")
		}
	}
	for _, f := range [...]struct{ name, path string }{
		{"BRIDGE_SCRAM_PASSWORD_FILE", c.ScramPasswordFile},
		{"BRIDGE_TLS_CA_FILE", c.TLSCAFile},
		{"BRIDGE_TLS_CERT_FILE", c.TLSCertFile},
		{"BRIDGE_TLS_KEY_FILE", c.TLSKeyFile},
	} {
		checkReadable(p, f.name, f.path)
	}
	c.DialAllow = trimmed(c.DialAllow)
	for _, a := range c.DialAllow {
		if !isDialRule(a) {
			p.add("BRIDGE_DIAL_ALLOW has %q, which is neither a host name suffix nor an address nor a CIDR", a)
		}
	}
}

// authsOf returns the ways of authentication that a setting belongs to, nil
// when it belongs to all.
func authsOf(name string) []string {
	switch name {
	case "BRIDGE_ROLE_ARN", "BRIDGE_ROLE_AUDIENCE", "BRIDGE_REGION":
		return []string{AuthIAM, AuthIAMOAuth}
	case "BRIDGE_SCRAM_USER", "BRIDGE_SCRAM_PASSWORD", "BRIDGE_SCRAM_PASSWORD_FILE", "BRIDGE_SCRAM_MECHANISM":
		return []string{AuthScram}
	case "BRIDGE_TLS_CERT_FILE", "BRIDGE_TLS_KEY_FILE":
		return []string{AuthMTLS}
	case "BRIDGE_TLS_CA_FILE", "BRIDGE_TLS_SERVER_NAME":
		return []string{AuthIAM, AuthIAMOAuth, AuthScram, AuthMTLS, AuthTLS}
	default:
		return nil
	}
}

// checkIAM checks the role and settles the region.
func (c *Config) checkIAM(p *problems) {
	if c.RoleARN != "" && !roleARN.MatchString(c.RoleARN) {
		p.add("BRIDGE_ROLE_ARN %q is not arn:aws:iam::ACCOUNT:role/NAME with an account of 12 digits", c.RoleARN)
	}
	if c.RoleARN != "" && c.RoleAudience == "" {
		p.add("BRIDGE_ROLE_AUDIENCE is required with BRIDGE_ROLE_ARN")
	}
	named := ""
	for _, b := range c.Brokers {
		host, _, _ := net.SplitHostPort(b)
		if m := brokerRegion.FindStringSubmatch(strings.ToLower(host)); m != nil {
			named = m[1]
			break
		}
	}
	c.Region = cmp.Or(c.Region, named, c.AWSRegion)
	switch {
	case len(c.Brokers) == 0: // whose names may say it
	case c.Region == "":
		p.add("BRIDGE_REGION is required for BRIDGE_AUTH %s, since it cannot be read from the brokers' names; brokers outside MSK want BRIDGE_AUTH tls, mtls, scram or plaintext", c.Auth)
	case !region.MatchString(c.Region):
		p.add("BRIDGE_REGION %q is not an AWS region such as eu-west-1", c.Region)
	}
}

func checkReadable(p *problems, name, path string) {
	if path == "" {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		p.add("%s: %v", name, err)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		p.add("%s %s is not a file", name, path)
	}
}

// isDialRule reports whether s is a host name suffix, an address or a CIDR.
func isDialRule(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return hostName.MatchString(strings.TrimPrefix(s, "."))
}
