package fakekafka

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// tapListener is where one broker listens. It knows its connections, since
// kfake leaves those of a removed broker open.
type tapListener struct {
	net.Listener
	tap     *tap
	address string // where it listens, whatever it advertises

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

// StopBroker takes a broker away with its connections; its partitions get other
// leaders and a higher leader epoch. The last broker cannot be stopped.
func (c *Cluster) StopBroker(node int32) error {
	if err := c.RemoveNode(node); err != nil {
		return fmt.Errorf("stopping broker: %w", err)
	}
	c.mu.Lock()
	l := c.listeners[node]
	c.mu.Unlock()
	l.cut()
	return nil
}

// StartBroker brings a stopped broker back where it was.
func (c *Cluster) StartBroker(node int32) error {
	c.mu.Lock()
	_, text, err := net.SplitHostPort(c.listeners[node].address)
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("starting broker: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("starting broker: %w", err)
	}
	if _, _, err := c.AddNode(node, port); err != nil {
		return fmt.Errorf("starting broker: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.listeners) - 1 // the one that AddNode opened
	c.listeners[node], c.listeners = c.listeners[last], c.listeners[:last]
	return nil
}

// NeverTruncated answers OffsetForLeaderEpoch as a cluster does that never lost
// a record. kfake says "unknown" for the last epoch that has records when a
// later one has none, where Kafka names the end of the log; a client takes the
// former for a truncation and reads everything again.
func (c *Cluster) NeverTruncated() {
	c.ControlKey(kmsg.OffsetForLeaderEpoch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.OffsetForLeaderEpochRequest)
		resp := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, t := range r.Topics {
			to := kmsg.NewOffsetForLeaderEpochResponseTopic()
			to.Topic = t.Topic
			for _, p := range t.Partitions {
				at := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				at.Partition, at.LeaderEpoch, at.EndOffset = p.Partition, p.LeaderEpoch, math.MaxInt64
				to.Partitions = append(to.Partitions, at)
			}
			resp.Topics = append(resp.Topics, to)
		}
		return resp, nil, true
	})
}
