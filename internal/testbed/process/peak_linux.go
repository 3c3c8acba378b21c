package process

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Peak returns the largest resident size so far of the running process, in
// bytes. What the kernel reports after its end is at least the size of the
// parent at the start, which exec hands on.
func (p *Process) Peak() (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0, fmt.Errorf("reading the peak of %s: %w", p.name, err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if field := strings.Fields(lines.Text()); len(field) > 1 && field[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(field[1], 10, 64)
			return kib << 10, err //nolint:wrapcheck // the kernel writes a number
		}
	}
	return 0, fmt.Errorf("reading the peak of %s: it has ended", p.name)
}
