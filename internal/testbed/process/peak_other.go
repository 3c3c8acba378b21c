//go:build unix && !linux

package process

import "errors"

// Peak is known on Linux alone.
func (p *Process) Peak() (int64, error) {
	return 0, errors.New("the peak of a running process is not known on this system")
}
