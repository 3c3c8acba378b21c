//go:build unix && !linux

package process

import "errors"

// Memory is known on Linux alone.
func (p *Process) Memory() (now, peak int64, err error) {
	return 0, 0, errors.New("the memory of a running process is not known on this system")
}
