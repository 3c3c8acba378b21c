package fakekafka

import "net"

// saslListener lets in only whom SASL knows.
type saslListener struct {
	net.Listener
	sasl *SASL
}

func (l *saslListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &saslConn{Conn: conn, sasl: l.sasl}, nil
}

// advertisedListener says that it is somewhere else.
type advertisedListener struct {
	net.Listener
	address string
}

func (l *advertisedListener) Addr() net.Addr { return advertised(l.address) }

type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }
