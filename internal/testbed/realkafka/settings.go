//go:build unix

package realkafka

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

const log4j1File = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
`

const log4j2File = `rootLogger.level=INFO
rootLogger.appenderRefs=out
rootLogger.appenderRef.out.ref=out
appenders=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
`

// configure takes the ports and writes every file the nodes read.
func (c *Cluster) configure() error {
	each := 2 + len(c.options.Listeners)
	ports, err := process.Ports(each * len(c.nodes))
	if err != nil {
		return err
	}
	c.ports = slices.Collect(slices.Chunk(ports, each))
	files := map[string]string{
		filepath.Join(c.dir, "log4j.properties"):  log4j1File,
		filepath.Join(c.dir, "log4j2.properties"): log4j2File,
	}
	for node := range c.nodes {
		files[c.propertiesFile(node)] = c.properties(node)
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing kafka's settings: %w", err)
		}
	}
	return nil
}

func (c *Cluster) propertiesFile(node int) string {
	return filepath.Join(c.dir, fmt.Sprintf("node%d.properties", node))
}

func (c *Cluster) properties(node int) string {
	var voters []string
	for i, ports := range c.ports {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[1]))
	}
	listeners := []string{
		fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", c.ports[node][0]),
		fmt.Sprintf("CONTROLLER://127.0.0.1:%d", c.ports[node][1]),
	}
	protocols := []string{"PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	for i, l := range c.options.Listeners {
		listeners = append(listeners, fmt.Sprintf("%s://127.0.0.1:%d", l.Name, c.ports[node][2+i]))
		protocols = append(protocols, l.Name+":"+l.Protocol)
	}
	copies := fmt.Sprint(min(3, len(c.nodes)))
	inSync := fmt.Sprint(max(1, min(3, len(c.nodes))-1))
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        fmt.Sprint(node + 1),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "PLAINTEXT",
		"listeners":                      strings.Join(listeners, ","),
		"listener.security.protocol.map": strings.Join(protocols, ","),
		"log.dirs":                       filepath.Join(c.dir, fmt.Sprintf("data%d", node)),

		"auto.create.topics.enable":        "false",
		"group.initial.rebalance.delay.ms": "0",
		// Small internal topics: they start faster and nobody needs 50 partitions.
		"offsets.topic.num.partitions":                     "5",
		"offsets.topic.replication.factor":                 copies,
		"transaction.state.log.num.partitions":             "5",
		"transaction.state.log.replication.factor":         copies,
		"transaction.state.log.min.isr":                    inSync,
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.replication.factor": copies,
		"share.coordinator.state.topic.min.isr":            inSync,
		"default.replication.factor":                       copies,
		"min.insync.replicas":                              inSync,
	}
	maps.Copy(p, c.options.Properties)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", name, p[name])
	}
	return b.String()
}

// format writes the cluster id into a node's empty data folder.
func (c *Cluster) format(ctx context.Context, node int) error {
	args := append(c.jvm("-Xmx256m"), "kafka.tools.StorageTool", "format", "-t", c.id, "-c", c.propertiesFile(node))
	out, err := exec.CommandContext(ctx, c.java, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("formatting node %d: %w\n%s", node, err, out)
	}
	return nil
}
