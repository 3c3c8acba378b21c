//go:build unix

package realkafka

import (
	"os"
	"strings"
)

// Existing returns the addresses in KAFKA_BROKERS, by which people who have a
// cluster (compose.yaml starts one) use it instead of a launched one, or nil.
func Existing() []string {
	var list []string
	for address := range strings.SplitSeq(os.Getenv("KAFKA_BROKERS"), ",") {
		if address = strings.TrimSpace(address); address != "" {
			list = append(list, address)
		}
	}
	return list
}
