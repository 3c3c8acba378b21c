//go:build synctests

package sim_test

// The client's locks are channels in this build, so members may come and go.
const (
	groups       = true
	tagArgument  = " -tags synctests"
	defaultSeeds = 12
)
