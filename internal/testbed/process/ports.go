//go:build unix

package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports returns n different free TCP ports of the loopback address. They lie
// below the ranges from which operating systems take the ports of outgoing
// connections, so a restarted child finds its port free.
func Ports(n int) ([]int, error) {
	const lowest, highest, tries = 20_000, 32_000, 1000
	taken := make(map[int]bool, n)
	ports := make([]int, 0, n)
	for range tries {
		if len(ports) == n {
			return ports, nil
		}
		port := lowest + rand.IntN(highest-lowest)
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		taken[port] = true
		ports = append(ports, port)
	}
	return nil, errors.New("finding free ports: none between 20000 and 32000")
}
