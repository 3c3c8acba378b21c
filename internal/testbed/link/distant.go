package link

import (
	"context"
	"net"
	"time"
)

// distance is what each write takes on a connection of Distant.
const distance = 100 * time.Microsecond

// Distant gives each write of a client a tenth of a millisecond. Without it
// virtual time stands still while a client asks a broker that no longer leads
// again and again, at the speed of the round trip, until it has new metadata.
func Distant(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return distantConn{c}, nil
	}
}

type distantConn struct{ net.Conn }

func (c distantConn) Write(b []byte) (int, error) {
	time.Sleep(distance)
	return c.Conn.Write(b)
}
