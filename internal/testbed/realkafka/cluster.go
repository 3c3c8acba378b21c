//go:build unix

// Package realkafka runs a real Apache Kafka (KRaft) for tests: one node or
// several, on free loopback ports, data in a temporary folder, each node a
// process that can be stopped, killed, frozen and started again.
package realkafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

// Listener is one more listener of every node, beside the plaintext one that
// the launcher itself needs.
type Listener struct {
	Name     string // for example SECURE
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
}

// Options say which cluster to run.
type Options struct {
	Version   string // Version3, Version4 or another release; "" means Version4
	Nodes     int    // 0 means 1
	Listeners []Listener
	// Properties are added to every server.properties and win over our own.
	// With an authorizer, super.users must hold User:ANONYMOUS, as whom the
	// launcher looks whether a node is up.
	Properties map[string]string
	// Keep leaves data and logs behind when Close is called.
	Keep bool
}

// Cluster is a running cluster. Nodes count from 0. Its methods are safe for
// concurrent use, but two that stop or start the same node must not overlap.
type Cluster struct {
	options Options
	java    string
	jars    string
	id      string
	dir     string
	// ports holds for each node its plaintext port, that of its controller,
	// and one for each further listener.
	ports [][]int

	mu    sync.Mutex // guards what follows
	nodes []*process.Process
}

// Start starts a cluster and waits until every node knows all others. It
// returns a process.MissingError when Java or the packages cannot be had.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Version == "" {
		o.Version = Version4
	}
	o.Nodes = max(1, o.Nodes)
	java, err := process.Find("apache kafka "+o.Version, "java", "install a Java 17 runtime, or set KAFKA_BROKERS to a running cluster")
	if err != nil {
		return nil, err
	}
	jars, err := Jars(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mskbridge-kafka-")
	if err != nil {
		return nil, fmt.Errorf("making kafka's folder: %w", err)
	}
	c := &Cluster{options: o, java: java, jars: jars, id: newID(), dir: dir, nodes: make([]*process.Process, o.Nodes)}
	if err := c.boot(ctx); err != nil {
		c.stopAll()
		return nil, fmt.Errorf("starting kafka %s (logs kept in %s): %w", o.Version, dir, err)
	}
	return c, nil
}

func (c *Cluster) boot(ctx context.Context) error {
	if err := c.configure(); err != nil {
		return err
	}
	for node := range c.nodes {
		if err := c.format(ctx, node); err != nil {
			return err
		}
	}
	for node := range c.nodes {
		if err := c.launch(node); err != nil {
			return err
		}
	}
	for node := range c.nodes {
		if err := c.await(ctx, node, len(c.nodes)); err != nil {
			return err
		}
	}
	return nil
}

// newID returns a cluster id as Kafka writes them: 16 random bytes in 22
// characters. One that begins with a dash would read as an option.
func newID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

// Version returns the release that runs.
func (c *Cluster) Version() string { return c.options.Version }

// Dir returns the folder of data and logs.
func (c *Cluster) Dir() string { return c.dir }

// Brokers returns the plaintext address of every node, running or not.
func (c *Cluster) Brokers() []string { return c.addresses(0) }

// BrokersOn returns the address of every node at a listener of Options.
func (c *Cluster) BrokersOn(listener string) []string {
	for i, l := range c.options.Listeners {
		if l.Name == listener {
			return c.addresses(2 + i)
		}
	}
	return nil
}

func (c *Cluster) addresses(at int) []string {
	list := make([]string, len(c.ports))
	for node, ports := range c.ports {
		list[node] = fmt.Sprintf("127.0.0.1:%d", ports[at])
	}
	return list
}

func (c *Cluster) node(i int) *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// Kill ends a node as a crash does.
func (c *Cluster) Kill(node int) { c.node(node).Kill() }

// Stop ends a node in good order: it hands its partitions over first.
func (c *Cluster) Stop(node int) { c.node(node).Stop(time.Minute) }

// Restart starts an ended node again, on its ports and data, and waits until
// it knows as many nodes as run.
func (c *Cluster) Restart(ctx context.Context, node int) error {
	if c.node(node).Running() {
		return fmt.Errorf("starting node %d: it runs", node)
	}
	if err := c.launch(node); err != nil {
		return err
	}
	running := 0
	for i := range c.nodes {
		if c.node(i).Running() {
			running++
		}
	}
	return c.await(ctx, node, running)
}

// Freeze stops a node's process where it is: connections stay open and silent.
func (c *Cluster) Freeze(node int) error { return c.node(node).Signal(syscall.SIGSTOP) }

// Thaw lets a frozen node go on.
func (c *Cluster) Thaw(node int) error { return c.node(node).Signal(syscall.SIGCONT) }

// Close ends all nodes at once and removes data and logs unless they are kept.
func (c *Cluster) Close() error {
	c.stopAll()
	if c.options.Keep {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// KeepFiles makes Close leave data and logs behind. Not to be called while
// Close runs.
func (c *Cluster) KeepFiles() { c.options.Keep = true }

func (c *Cluster) stopAll() {
	for i := range c.nodes {
		if p := c.node(i); p != nil {
			p.Kill() // nobody needs the data: no reason to wait for good order
		}
	}
}

func (c *Cluster) launch(node int) error {
	// The lock is held over the start, so that Close cannot miss the child.
	c.mu.Lock()
	defer c.mu.Unlock()
	heap := "-Xmx1g"
	if c.options.Nodes > 1 {
		heap = "-Xmx512m"
	}
	p, err := process.Start(process.Spec{
		Name: fmt.Sprintf("node%d", node),
		Path: c.java,
		Args: append(c.jvm(heap), "kafka.Kafka", c.propertiesFile(node)),
		Dir:  c.dir,
	})
	if err != nil {
		return err
	}
	c.nodes[node] = p
	return nil
}

func (c *Cluster) jvm(heap string) []string {
	return []string{
		heap, "-XX:+ExitOnOutOfMemoryError",
		"-Dlog4j.configuration=file:" + filepath.Join(c.dir, "log4j.properties"),
		"-Dlog4j2.configurationFile=" + filepath.Join(c.dir, "log4j2.properties"),
		"-cp", filepath.Join(c.jars, "*"),
	}
}

// await asks the node itself, at its own address, until it names at least
// want brokers. The random cluster id in the answer proves that the listener
// is our process and not a stranger's broker on the same port.
func (c *Cluster) await(ctx context.Context, node, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	address := c.Brokers()[node]
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer client.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	p := c.node(node)
	for last := errors.New("no answer yet"); ; {
		select {
		case <-p.Done():
			return fmt.Errorf("node %d ended with exit code %d:\n%s", node, p.ExitCode(), p.Tail(20))
		case <-ctx.Done():
			return fmt.Errorf("waiting for node %d at %s: %w\n%s", node, address, last, p.Tail(20))
		case <-tick.C:
		}
		if last = c.ask(ctx, client, want); last == nil {
			return nil
		}
		if errors.Is(last, errStranger) {
			return fmt.Errorf("asking node %d at %s: %w", node, address, last)
		}
	}
}

var errStranger = errors.New("another cluster answers on this port")

func (c *Cluster) ask(ctx context.Context, client *kgo.Client, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none: the brokers are enough
	answer, err := client.SeedBrokers()[0].Request(ctx, request)
	if err != nil {
		return err
	}
	m := answer.(*kmsg.MetadataResponse)
	id := ""
	if m.ClusterID != nil {
		id = *m.ClusterID
	}
	switch {
	case id != c.id:
		return fmt.Errorf("%w: %q", errStranger, id)
	case len(m.Brokers) < want:
		return fmt.Errorf("knows %d of %d nodes", len(m.Brokers), want)
	}
	return nil
}

// Logs returns the last lines of every node's log, for a failed test.
func (c *Cluster) Logs(lines int) string {
	var b strings.Builder
	for i := range c.nodes {
		if p := c.node(i); p != nil {
			fmt.Fprintf(&b, "node %d (%s):\n%s\n", i, p.Log(), p.Tail(lines))
		}
	}
	return b.String()
}
