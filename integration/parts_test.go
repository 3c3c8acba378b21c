//go:build integration && unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mskbridge/mskbridge/internal/testbed/emulator"
	"github.com/mskbridge/mskbridge/internal/testbed/process"
	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

// suite holds what the tests share: the binary, and the parts that take
// seconds to start. Each is made when the first test asks for it.
var suite struct {
	dir string

	mu       sync.Mutex // guards the rest
	binary   string
	clusters map[string]*realkafka.Cluster
	emulator *emulator.Emulator
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mskbridge-integration-")
	if err != nil {
		panic(err)
	}
	suite.dir, suite.clusters = dir, map[string]*realkafka.Cluster{}
	m.Run()
	for _, c := range suite.clusters {
		_ = c.Close()
	}
	if suite.emulator != nil {
		_ = suite.emulator.Close()
	}
	_ = os.RemoveAll(dir)
}

// number reads a size of the tests from the environment.
func number(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number above 0", name, text)
	}
	return n
}

// seed is printed, so that the random moments of a failed run can be repeated.
func seed(t testing.TB) uint64 {
	t.Helper()
	s := uint64(number(t, "MSKBRIDGE_SEED", int(time.Now().UnixNano()%1_000_000_000)))
	t.Logf("MSKBRIDGE_SEED=%d", s)
	return s
}

func race() bool { return os.Getenv("MSKBRIDGE_RACE") == "1" }

// need ends the test for want of a part: as failed where parts are required,
// else as skipped. Other errors always fail.
func need(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if _, ok := errors.AsType[*process.MissingError](err); ok && os.Getenv("MSKBRIDGE_REQUIRE_PARTS") != "1" {
		t.Skipf("SKIPPED, NOT PROVED: %v", err)
	}
	t.Fatal(err)
}

// built returns the path of the bridge, built once.
func built(t testing.TB) string {
	t.Helper()
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.binary != "" {
		return suite.binary
	}
	if given := os.Getenv("MSKBRIDGE_BINARY"); given != "" {
		suite.binary = given
		return given
	}
	path := filepath.Join(suite.dir, "mskbridge")
	args := []string{"build", "-o", path}
	if race() {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "../cmd/mskbridge")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the bridge: %v\n%s", err, out)
	}
	suite.binary = path
	return path
}

// kafka is a cluster under test.
type kafka struct {
	brokers []string
	version string
	own     *realkafka.Cluster // nil when it was given by address
}

// versions lists the releases that a test with one node runs on.
func versions() []string {
	if realkafka.Existing() != nil {
		return []string{"given"}
	}
	return []string{realkafka.Version3, realkafka.Version4}
}

// broker returns the shared cluster of one node, or the one given by address.
func broker(t testing.TB, version string) *kafka {
	t.Helper()
	if given := realkafka.Existing(); given != nil {
		return &kafka{brokers: given, version: "given"}
	}
	return ownBroker(t, version)
}

// ownBroker returns a shared cluster of one node that the test may freeze; it
// leaves it running.
func ownBroker(t testing.TB, version string) *kafka {
	t.Helper()
	suite.mu.Lock()
	defer suite.mu.Unlock()
	c := suite.clusters[version]
	if c == nil {
		began := time.Now()
		var err error
		c, err = realkafka.Start(context.Background(), realkafka.Options{Version: version})
		need(t, err)
		suite.clusters[version] = c
		t.Logf("kafka %s up after %v", version, since(began))
	}
	t.Cleanup(func() { explain(t, c) })
	return &kafka{brokers: c.Brokers(), version: c.Version(), own: c}
}

// threeNodes starts a cluster for one test.
func threeNodes(t testing.TB, version string) *kafka {
	t.Helper()
	c, err := realkafka.Start(t.Context(), realkafka.Options{Version: version, Nodes: 3})
	need(t, err)
	t.Cleanup(func() {
		explain(t, c)
		_ = c.Close()
	})
	return &kafka{brokers: c.Brokers(), version: c.Version() + " x3", own: c}
}

func explain(t testing.TB, c *realkafka.Cluster) {
	t.Helper()
	if t.Failed() {
		c.KeepFiles()
		t.Logf("kafka's files stay in %s\n%s", c.Dir(), c.Logs(5))
	}
}

// pubsubEmulator returns the shared emulator, or the one given by address.
func pubsubEmulator(t testing.TB) *emulator.Emulator {
	t.Helper()
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.emulator == nil {
		var err error
		if given := emulator.Existing(); given != "" {
			suite.emulator, err = emulator.Attach(given)
		} else {
			suite.emulator, err = emulator.Start(context.Background())
		}
		need(t, err)
	}
	return suite.emulator
}

// unique makes a name of this test that no other run has used.
func unique(t testing.TB) string {
	t.Helper()
	name := strings.NewReplacer("/", "-", ".", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test"))
	return fmt.Sprintf("%s-%x", strings.ToLower(name), time.Now().UnixNano()&0xffffff)
}

func since(began time.Time) time.Duration { return time.Since(began).Round(10 * time.Millisecond) }

// eventually waits until done holds, looking every 50 ms.
func eventually(t testing.TB, within time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(began) > within {
			t.Fatalf("waited %v for: %s", within, what)
		}
		<-tick.C
	}
	return since(began)
}
