package fakekafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// firstPort is the port of the first broker on a virtual network.
const firstPort = 9092

// Options of a Cluster. The zero value is one broker on loopback TCP.
type Options struct {
	Brokers int // 0: one
	// Network, when set, carries all connections in memory, for a bubble of
	// testing/synctest. The brokers listen on localhost, port 9092 and up.
	Network *kfake.VirtualNetwork
	// TLS, when set, is what the brokers speak; nil is plaintext.
	TLS *tls.Config
	// SASL, when set, is whom brokers let in.
	SASL *SASL
	// Advertise, when set, replaces the host and port of the brokers in what they
	// tell clients: where they are dialled next.
	Advertise func(address string) string
	// Kfake are further options, for example kfake.BrokerConfigs.
	Kfake []kfake.Opt
}

// Cluster is a running fake Kafka. Use Start. Safe for concurrent use.
type Cluster struct {
	*kfake.Cluster
	opts    Options
	brokers []string
	tap     *tap

	mu        sync.Mutex // guards what follows
	byID      map[[16]byte]string
	byName    map[string][16]byte
	listeners []*tapListener    // by broker
	leaders   map[place]leader  // when they last changed
	real      map[string]string // advertised address to that of the listener
}

// Start starts the brokers. The caller closes the cluster.
func Start(o Options) (*Cluster, error) {
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	c := &Cluster{opts: o, byID: map[[16]byte]string{}, byName: map[string][16]byte{}, real: map[string]string{}}
	c.tap = newTap(c.nameOf)
	opts := []kfake.Opt{kfake.NumBrokers(o.Brokers), kfake.ListenFn(c.listen)}
	if o.Network != nil {
		ports := make([]int, o.Brokers)
		for i := range ports {
			ports[i] = firstPort + i
		}
		opts = append(opts, kfake.Ports(ports...))
	}
	k, err := kfake.NewCluster(append(opts, o.Kfake...)...)
	if err != nil {
		return nil, fmt.Errorf("starting kfake: %w", err)
	}
	c.Cluster, c.brokers = k, k.ListenAddrs()
	return c, nil
}

// listen wraps each broker's listener: TLS is ended here, so that the tap sees
// plain requests.
func (c *Cluster) listen(network, address string) (net.Listener, error) {
	listen := net.Listen
	if c.opts.Network != nil {
		listen = c.opts.Network.Listen
	}
	l, err := listen(network, address)
	if err != nil {
		return nil, err
	}
	if c.opts.TLS != nil {
		l = tls.NewListener(l, c.opts.TLS)
	}
	if c.opts.SASL != nil {
		l = &saslListener{l, c.opts.SASL}
	}
	if c.opts.Advertise != nil {
		at := l.Addr().String()
		l = &advertisedListener{l, c.opts.Advertise(at)}
		c.mu.Lock()
		c.real[l.Addr().String()] = at
		c.mu.Unlock()
	}
	tl := &tapListener{Listener: l, tap: c.tap, conns: map[net.Conn]struct{}{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, tl)
	return tl, nil
}

// Brokers returns the addresses the cluster began with.
func (c *Cluster) Brokers() []string { return slices.Clone(c.brokers) }

// Dial connects to a broker by its advertised address, over the virtual network
// if there is one.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	if at, ok := c.real[address]; ok {
		address = at
	}
	c.mu.Unlock()
	if c.opts.Network != nil {
		return c.opts.Network.DialContext(ctx, network, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// Client returns a kgo client of the cluster; opts come last and win. It does
// not know the cluster's TLS.
func (c *Cluster) Client(opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.Dialer(c.Dial)}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return cl, nil
}

// Create creates a topic and remembers its id, by which newer clients commit.
// Topics made otherwise are observed too, if a client commits by name.
func (c *Cluster) Create(topic string, partitions int32, configs map[string]string) error {
	if err := c.CreateTopic(topic, partitions, configs); err != nil {
		return fmt.Errorf("creating topic %s: %w", topic, err)
	}
	info := c.TopicInfo(topic)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[info.TopicID], c.byName[topic] = topic, info.TopicID
	return nil
}

// TopicID returns the id of the newest topic of that name made by Create.
func (c *Cluster) TopicID(topic string) [16]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byName[topic]
}

// nameOf completes a topic's name and id from the one that is known.
func (c *Cluster) nameOf(name string, id [16]byte) (string, [16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" {
		return c.byID[id], id
	}
	return name, c.byName[name]
}
