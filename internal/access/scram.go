package access

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// PasswordFile returns a function that reads a password from a file, without
// the end of its last line, each time it is called: a secret that is mounted as
// a file may be renewed.
func PasswordFile(path string) func() (string, error) {
	return func() (string, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading the password file: %w", err)
		}
		password := strings.TrimRight(string(b), "\r\n")
		if password == "" {
			return "", errors.New("the password file " + path + " is empty")
		}
		return password, nil
	}
}
