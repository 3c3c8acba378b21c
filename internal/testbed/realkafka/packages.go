//go:build unix

package realkafka

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

// Versions that Maven's packages hold and the tests use: the newest of the
// line that MSK runs most, and the newest of all.
const (
	Version3 = "3.9.2"
	Version4 = "4.4.0"
)

// pom asks for a broker and its tools. The logging bridge comes first, so that
// its version of log4j wins; without it a 4.x broker runs but logs nothing,
// while a 3.9 one brings its own and must not have two.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>mskbridge</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>%s
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>%[2]s</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>%[2]s</version></dependency>
  </dependencies>
</project>
`

const log4j2 = `
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.5</version></dependency>`

var released = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// Jars returns the directory with the broker's jars, fetching them with Maven
// (about 60 MB) into the user's cache directory on first use. Several
// processes may do so at once.
func Jars(ctx context.Context, version string) (string, error) {
	if !released.MatchString(version) {
		return "", fmt.Errorf("choosing kafka version %q: want three numbers", version)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache directory: %w", err)
	}
	parent := filepath.Join(cache, "mskbridge", "kafka")
	dir := filepath.Join(parent, version)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	mvn, err := process.Find("apache kafka "+version, "mvn", "install Maven, or set KAFKA_BROKERS to a running cluster")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return "", fmt.Errorf("making the cache directory: %w", err)
	}
	work, err := os.MkdirTemp(parent, "fetch-")
	if err != nil {
		return "", fmt.Errorf("making the cache directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := fetch(ctx, mvn, work, version); err != nil {
		return "", err
	}
	// Of several that fetched at once the first wins; its jars are the same.
	if err := os.Rename(filepath.Join(work, "jars"), dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", fmt.Errorf("keeping kafka's jars: %w", err)
		}
	}
	return dir, nil
}

func fetch(ctx context.Context, mvn, work, version string) error {
	logging := ""
	if !strings.HasPrefix(version, "3.") {
		logging = log4j2
	}
	text := fmt.Sprintf(pom, logging, version)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the pom: %w", err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-B", "-q", "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "jars"))
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return &process.MissingError{
			Part: "apache kafka " + version, Lack: "its packages",
			Hint: fmt.Sprintf("maven could not fetch them (%v): %s", err, firstLines(string(out), 3)),
		}
	}
	return nil
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(strings.TrimSpace(s), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], " / ")
}
