package access

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestPolicyAddresses(t *testing.T) {
	const msk = "b-1.x.kafka.eu-west-1.amazonaws.com:9098"
	for _, c := range []struct {
		name   string
		broker string
		allow  []string
		host   string // as a broker advertised it
		ip     string // what it resolves to
		want   string // rule, "" for none
	}{
		{"private", msk, nil, "b-2.x", "10.1.2.3", ""},
		{"public", msk, nil, "b-2.x", "52.1.2.3", ""},
		{"private v6", msk, nil, "b-2.x", "fd12::1", ""},
		{"metadata server", msk, nil, "b-2.x", "169.254.169.254", "link-local"},
		{"container credentials", msk, nil, "b-2.x", "169.254.170.2", "link-local"},
		{"metadata server by NAT64", msk, nil, "b-2.x", "64:ff9b::a9fe:a9fe", "link-local"},
		{"metadata server mapped", msk, nil, "b-2.x", "::ffff:169.254.169.254", "link-local"},
		{"link-local v6", msk, nil, "b-2.x", "fe80::1", "link-local"},
		{"AWS metadata v6", msk, nil, "b-2.x", "fd00:ec2::254", "link-local"},
		{"unspecified", msk, nil, "b-2.x", "0.0.0.0", "unspecified"},
		{"this network", msk, nil, "b-2.x", "0.1.2.3", "unspecified"},
		{"unspecified v6", msk, nil, "b-2.x", "::", "unspecified"},
		{"multicast", msk, nil, "b-2.x", "224.0.0.1", "multicast"},
		{"multicast v6", msk, nil, "b-2.x", "ff02::1", "multicast"},
		{"broadcast", msk, nil, "b-2.x", "255.255.255.255", "multicast or broadcast"},
		{"loopback", msk, nil, "b-2.x", "127.0.0.1", "loopback"},
		{"loopback v6", msk, nil, "b-2.x", "::1", "loopback"},
		{"loopback from loopback", "localhost:9092", nil, "localhost", "127.0.0.1", ""},
		{"loopback although listed", msk, []string{"127.0.0.0/8"}, "b-2.x", "127.0.0.1", "loopback"},
		{"metadata by name", msk, nil, "Metadata.Google.Internal.", "10.0.0.1", "a metadata server"},
		{"metadata by short name", "localhost:9092", nil, "metadata", "10.0.0.1", "a metadata server"},
		{"suffix", msk, []string{".kafka.eu-west-1.amazonaws.com"}, "b-2.x.kafka.eu-west-1.amazonaws.com", "10.0.0.1", ""},
		{"suffix is a whole label", msk, []string{"example.com"}, "evilexample.com", "10.0.0.1", "BRIDGE_DIAL_ALLOW"},
		{"suffix in other letters", msk, []string{"Example.com"}, "B-2.EXAMPLE.COM.", "10.0.0.1", ""},
		{"suffix does not admit metadata", msk, []string{"example.com"}, "b-2.example.com", "169.254.169.254", "link-local"},
		{"bootstrap needs no rule", msk, []string{"example.com"}, "b-1.x.kafka.eu-west-1.amazonaws.com", "10.0.0.1", ""},
		{"bootstrap never to metadata", "169.254.169.254:9092", nil, "169.254.169.254", "169.254.169.254", "link-local"},
		{"in a CIDR", msk, []string{"10.0.0.0/8"}, "b-2.x", "10.9.9.9", ""},
		{"outside the CIDR", msk, []string{"10.0.0.0/8"}, "b-2.x", "11.0.0.1", "BRIDGE_DIAL_ALLOW"},
		{"one address", msk, []string{"10.0.0.7"}, "10.0.0.7", "10.0.0.7", ""},
		{"suffix or CIDR", msk, []string{"example.com", "10.0.0.0/8"}, "b-2.example.com", "52.0.0.1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policyFor(t, c.broker, c.allow...)
			listed, err := p.host(c.host)
			if err == nil {
				err = p.address(netip.MustParseAddr(c.ip), listed)
			}
			var refusal *DialRefusedError
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (!errors.As(err, &refusal) || !strings.Contains(refusal.Rule, c.want)):
				t.Fatalf("got %v, want the rule %q", err, c.want)
			}
		})
	}
}

// TestRebinding dials a name that resolves to loopback: the name says nothing,
// the address at the moment of connecting does. Nobody must be connected to.
func TestRebinding(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer(t, l, func(net.Conn) { t.Error("somebody connected") })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	dial := Dialer(nil, policyFor(t, "b-1.x.kafka.eu-west-1.amazonaws.com:9098"))
	_, err = dial(t.Context(), "tcp", "localhost:"+port)
	var refusal *DialRefusedError
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "loopback") {
		t.Fatalf("got %v", err)
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("%v is no error of dialling, by which the client tries its next broker", err)
	}
}

func TestNameIsRefusedBeforeLookup(t *testing.T) {
	dial := Dialer(nil, policyFor(t, "b-1.x:9098", "example.com"))
	for _, host := range []string{"metadata.google.internal", "nowhere.invalid"} {
		_, err := dial(t.Context(), "tcp", host+":80")
		var refusal *DialRefusedError
		var lookup *net.DNSError
		if !errors.As(err, &refusal) || errors.As(err, &lookup) {
			t.Errorf("%s: got %v", host, err)
		}
	}
}

func TestPolicyRefusesRules(t *testing.T) {
	for _, c := range []struct{ broker, allow string }{{"no port", ""}, {"b:1", "10.0.0.0/33"}} {
		if _, err := NewPolicy([]string{c.broker}, []string{c.allow}); err == nil {
			t.Errorf("took %v", c)
		}
	}
}
