package fakekafka

import (
	"net"
	"sync"
)

// tapListener is where one broker listens, and what it accepted.
type tapListener struct {
	net.Listener
	tap *tap

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
}

func (l *tapListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tc := l.tap.conn(c, l.forget)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[tc] = struct{}{}
	return tc, nil
}

func (l *tapListener) forget(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// cut closes all connections.
func (l *tapListener) cut() {
	l.mu.Lock()
	conns := l.conns
	l.conns = map[net.Conn]struct{}{}
	l.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
}

// RestartBroker moves the leaders of a broker's partitions elsewhere, if there
// is another, and cuts its connections, as a rolling restart does. It takes
// connections again at once: clients of kfake may spin while one is missing.
func (c *Cluster) RestartBroker(node int32) error {
	c.mu.Lock()
	listeners := len(c.listeners)
	l := c.listeners[node]
	led := make([]place, 0, len(c.leaders))
	for p, by := range c.leaders {
		if by.node == node && listeners > 1 {
			led = append(led, p)
		}
	}
	c.mu.Unlock()
	for _, p := range led {
		if err := c.MoveTopicPartition(p.topic, p.partition, (node+1)%int32(listeners)); err != nil {
			return err
		}
	}
	l.cut()
	return nil
}
