//go:build unix

package emulator

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

const part = "pub/sub emulator"

// find returns the emulator's start script in the SDK that gcloud belongs to.
func find(ctx context.Context) (string, error) {
	if _, err := process.Find(part, "java", "install a Java runtime, or set PUBSUB_EMULATOR_HOST to a running emulator"); err != nil {
		return "", err
	}
	gcloud, err := process.Find(part, "gcloud", "install the Google Cloud SDK, or set PUBSUB_EMULATOR_HOST to a running emulator")
	if err != nil {
		return "", err
	}
	// gcloud is <sdk>/bin/gcloud, mostly behind a symlink; asking it takes
	// seconds, so it is asked only when the link leads elsewhere.
	if target, err := filepath.EvalSymlinks(gcloud); err == nil {
		if script, ok := script(filepath.Dir(filepath.Dir(target))); ok {
			return script, nil
		}
	}
	out, err := exec.CommandContext(ctx, gcloud, "info", "--format=value(installation.sdk_root)").Output()
	if err == nil {
		if script, ok := script(strings.TrimSpace(string(out))); ok {
			return script, nil
		}
	}
	return "", &process.MissingError{
		Part: part, Lack: "its component in the Google Cloud SDK",
		Hint: "install it (gcloud components install pubsub-emulator, or the package google-cloud-cli-pubsub-emulator)",
	}
}

func script(sdk string) (string, bool) {
	path := filepath.Join(sdk, "platform", "pubsub-emulator", "bin", "cloud-pubsub-emulator")
	info, err := os.Stat(path)
	return path, err == nil && !info.IsDir()
}
