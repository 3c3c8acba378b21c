//go:build unix

package bqemulator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

// Version is the release of the Python package that the tests know.
const Version = "1.4.0"

const part = "bqemulator " + Version

// packages are what is installed: numpy is missing among the server's own
// requirements, and the translator and the database decide what SQL it takes.
func packages() []string {
	return []string{"bqemulator==" + Version, "numpy==2.4.6", "sqlglot==30.11.0", "duckdb==2.0.1"}
}

// install returns the Python of a virtual environment with the server,
// which it makes in the user's cache directory on first use. Several processes
// may do so at once.
func install(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache directory: %w", err)
	}
	parent := filepath.Join(cache, "mskbridge", "bqemulator")
	dir := filepath.Join(parent, Version)
	python := filepath.Join(dir, "bin", "python3")
	if _, err := os.Stat(python); err == nil {
		return python, nil
	}
	system, err := process.Find(part, "python3", "install Python 3.11 or newer with its venv module")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return "", fmt.Errorf("making the cache directory: %w", err)
	}
	work, err := os.MkdirTemp(parent, "install-")
	if err != nil {
		return "", fmt.Errorf("making the cache directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := run(ctx, "its virtual environment", system, "-m", "venv", work); err != nil {
		return "", err
	}
	pip := append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, packages()...)
	if err := run(ctx, "its packages", filepath.Join(work, "bin", "python3"), pip...); err != nil {
		return "", err
	}
	// Python finds its packages from where it lies, so the folder may be moved.
	// Of several that installed at once the first wins.
	if err := os.Rename(work, dir); err != nil {
		if _, statErr := os.Stat(python); statErr != nil {
			return "", fmt.Errorf("keeping %s: %w", part, err)
		}
	}
	return python, nil
}

func run(ctx context.Context, what, path string, args ...string) error {
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return &process.MissingError{
		Part: part, Lack: what,
		Hint: fmt.Sprintf("%s failed (%v): %s", filepath.Base(path), err, strings.Join(lines[max(0, len(lines)-3):], " / ")),
	}
}
