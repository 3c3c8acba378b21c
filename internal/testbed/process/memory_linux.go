package process

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory returns the resident size of the running process in bytes, now and at
// its peak. What the kernel reports after its end is at least the size of the
// parent at the start, which exec hands on.
func (p *Process) Memory() (now, peak int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the memory of %s: %w", p.name, err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64) // of other lines: not used
		switch fields[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			peak = kib << 10
		}
	}
	if peak == 0 {
		return 0, 0, fmt.Errorf("reading the memory of %s: it has ended", p.name)
	}
	return now, peak, nil
}
