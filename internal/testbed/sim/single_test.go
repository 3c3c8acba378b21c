//go:build !synctests

package sim_test

// In a plain build the client's commit waits on a sync.RWMutex, which a bubble
// does not count as blocked: a rebalance would stop virtual time. So there is
// one member, and only Pub/Sub has faults.
const (
	groups       = false
	tagArgument  = ""
	defaultSeeds = 8
)
