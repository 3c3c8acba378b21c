package access

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Policy says which addresses may be dialled. Brokers advertise where to go
// next, and whoever can answer for a broker could send us anywhere: a metadata
// server that hands out credentials, or a service that trusts loopback. Names
// are judged as they are, and again by the address they resolved to, at the
// moment of connecting.
type Policy struct {
	bootstrap []string // hosts that the configuration names
	loopback  bool     // all of them are loopback
	suffixes  []string // lower case, without a leading dot
	prefixes  []netip.Prefix
}

// NewPolicy returns the policy for bootstrap brokers, host:port each, and an
// optional list of what further brokers must match: host name suffixes,
// addresses and CIDRs.
func NewPolicy(brokers, allow []string) (*Policy, error) {
	p := &Policy{loopback: true}
	for _, b := range brokers {
		host, _, err := net.SplitHostPort(b)
		if err != nil {
			return nil, fmt.Errorf("reading bootstrap broker: %w", err)
		}
		ip, err := netip.ParseAddr(host)
		p.loopback = p.loopback && (host == "localhost" || err == nil && ip.Unmap().IsLoopback())
		p.bootstrap = append(p.bootstrap, strings.ToLower(host))
	}
	for _, a := range allow {
		if ip, err := netip.ParseAddr(a); err == nil {
			p.prefixes = append(p.prefixes, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			continue
		}
		if !strings.Contains(a, "/") {
			p.suffixes = append(p.suffixes, strings.ToLower(strings.TrimPrefix(a, ".")))
			continue
		}
		prefix, err := netip.ParsePrefix(a)
		if err != nil {
			return nil, fmt.Errorf("reading dial allow-list: %w", err)
		}
		p.prefixes = append(p.prefixes, prefix.Masked())
	}
	return p, nil
}

// host judges a name before it is resolved. listed is whether the allow-list,
// if there is one, admits the name whatever its address.
func (p *Policy) host(host string) (listed bool, err error) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "metadata" || host == "metadata.google.internal" {
		return false, refused(host, "a metadata server")
	}
	listed = len(p.suffixes)+len(p.prefixes) == 0 || slices.Contains(p.bootstrap, host) ||
		slices.ContainsFunc(p.suffixes, func(s string) bool { return host == s || strings.HasSuffix(host, "."+s) })
	if !listed && len(p.prefixes) == 0 {
		return false, refused(host, "not in BRIDGE_DIAL_ALLOW")
	}
	return listed, nil
}

// Ranges without a predicate in net/netip.
var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")     //nolint:gochecknoglobals // a constant in all but name
	broadcast   = netip.MustParseAddr("255.255.255.255") //nolint:gochecknoglobals // a constant in all but name
	awsMetadata = netip.MustParseAddr("fd00:ec2::254")   //nolint:gochecknoglobals // a constant in all but name
	nat64       = netip.MustParsePrefix("64:ff9b::/96")  //nolint:gochecknoglobals // a constant in all but name
)

// address judges what a name resolved to.
func (p *Policy) address(ip netip.Addr, listed bool) error {
	ip = ip.WithZone("").Unmap()
	if nat64.Contains(ip) {
		embedded := ip.As16()
		ip = netip.AddrFrom4([4]byte(embedded[12:]))
	}
	switch {
	case ip.IsUnspecified() || thisNetwork.Contains(ip):
		return refused(ip.String(), "unspecified")
	case ip.IsMulticast() || ip == broadcast:
		return refused(ip.String(), "multicast or broadcast")
	case ip.IsLinkLocalUnicast() || ip == awsMetadata:
		return refused(ip.String(), "link-local, where metadata servers are")
	case ip.IsLoopback() && !p.loopback:
		return refused(ip.String(), "loopback, but not every bootstrap broker is")
	case !listed && !slices.ContainsFunc(p.prefixes, func(n netip.Prefix) bool { return n.Contains(ip) }):
		return refused(ip.String(), "not in BRIDGE_DIAL_ALLOW")
	}
	return nil
}

// control returns what a net.Dialer calls with every address it is about to
// connect to.
func (p *Policy) control(listed bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return refused(address, "not an address")
		}
		return p.address(at.Addr(), listed)
	}
}

func refused(what, rule string) error {
	return &DialRefusedError{Address: what, Rule: rule}
}

// DialRefusedError is a dial that the policy forbids.
type DialRefusedError struct {
	Address string // host name or IP address
	Rule    string // what it is that must not be dialled
}

func (e *DialRefusedError) Error() string {
	return fmt.Sprintf("the dial policy refuses %s: it is %s", e.Address, e.Rule)
}
