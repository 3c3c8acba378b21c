//go:build unix

package process

import (
	"fmt"
	"os/exec"
)

// MissingError says that a real part cannot be had on this machine. Tests that
// need it skip loudly, or fail where the parts are required.
type MissingError struct {
	Part string // what could not be started
	Lack string // what was not found
	Hint string // what to do about it
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: %s not found: %s", e.Part, e.Lack, e.Hint)
}

// Find returns the path of an executable, or a MissingError.
func Find(part, name, hint string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &MissingError{Part: part, Lack: name, Hint: hint}
	}
	return path, nil
}
