package config

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Profiles of BRIDGE_PROFILE.
const (
	ProfileLatency  = "latency"
	ProfileBalanced = "balanced"
	ProfileCost     = "cost"
)

// noLimitMemory is assumed where neither BRIDGE_MEMORY nor a container limit
// says otherwise: Cloud Run's own default.
const noLimitMemory = 512 * mib

// leastMemory is the smallest container in which the hot path was measured.
const leastMemory = 48 * mib

// mostWindow bounds W in large containers. A wider window adds no rate on any
// link we know and makes more duplicates after a crash.
const mostWindow = 256 * mib

// Sizes are the buffer sizes and rhythms derived from memory and profile.
type Sizes struct {
	// Memory is what they were derived from: BRIDGE_MEMORY or the container's limit.
	Memory Bytes
	// Window is W, the bytes between poll and acknowledgement.
	Window int64
	// FetchMaxBytes is asked of one broker at a time, FetchMaxPartition of one
	// partition; both count compressed bytes.
	FetchMaxBytes, FetchMaxPartition int32
	// SlabBytes is where a slab is sealed. A larger record gets a slab of its own.
	SlabBytes int
	// InFlight is K, the requests in flight for each route.
	InFlight int
	// Linger is how long a partial slab waits when nothing is in flight.
	Linger time.Duration
	// PollEvery is the least time between polls.
	PollEvery time.Duration
	// GOMEMLIMIT in bytes and GOGC in percent are for the Go runtime.
	GOMEMLIMIT int64
	GOGC       int
}

// memoryStep holds from a container size upward. Fetch sizes and windows are
// those measured in performance.md 4, "Memory", with three brokers; 192 MiB is
// interpolated.
type memoryStep struct {
	from, fetch Bytes
	share       Bytes // W is the container divided by this
}

// DeriveSizes computes the sizes for a process of the given memory that reads
// from so many brokers at once. It refuses memory below 48 MiB.
func DeriveSizes(memory Bytes, profile string, brokers int) (Sizes, error) {
	if memory < leastMemory {
		return Sizes{}, fmt.Errorf("memory of %v (BRIDGE_MEMORY, else the container's limit) is below %v, the least the bridge was measured to work in", memory, leastMemory)
	}
	var step memoryStep
	for _, s := range []memoryStep{
		{48 * mib, 128 * kib, 24},
		{60 * mib, 256 * kib, 16},
		{88 * mib, 512 * kib, 12},
		{112 * mib, 1 * mib, 8},
		{180 * mib, 2 * mib, 8},
		{240 * mib, 4 * mib, 8},
	} {
		if memory >= s.from {
			step = s
		}
	}
	s := Sizes{Memory: memory, InFlight: 16, GOGC: 400}
	window := min(memory/step.share, mostWindow)
	// Each broker may have one fetch buffered and one under way, so what one
	// broker gets shrinks with their number.
	fetch := max(step.fetch*3/Bytes(max(brokers, 3)), 64*kib)
	partition := 256 * kib
	switch profile {
	case ProfileLatency:
		fetch, partition = min(fetch, 1*mib), 64*kib
	case ProfileCost:
		s.Linger, s.PollEvery = 100*time.Millisecond, 100*time.Millisecond
	default:
		s.Linger, s.PollEvery = 10*time.Millisecond, 20*time.Millisecond
	}
	s.Window = int64(window)
	s.FetchMaxBytes = int32(fetch)
	s.FetchMaxPartition = int32(min(partition, fetch/2))
	// Eight full slabs fill the window, so a few routes can publish side by side.
	s.SlabBytes = int(min(4*mib, window/8))
	// 85 % of the container, and below 80 MiB what the binary, stacks and
	// kernel buffers need beside the heap.
	s.GOMEMLIMIT = int64(min(memory*85/100, memory-12*mib))
	return s, nil
}

// String is the one line that is printed at start.
func (s Sizes) String() string {
	var b strings.Builder
	for i, r := range s.rows() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(r[0] + " " + r[1])
	}
	return b.String()
}

// Table is the same for people, one size on a line with its meaning.
func (s Sizes) Table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range s.rows() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r[0], r[1], r[2])
	}
	w.Flush()
	return b.String()
}

func (s Sizes) rows() [][3]string {
	return [][3]string{
		{"memory", s.Memory.String(), "of the process"},
		{"window", Bytes(s.Window).String(), "between poll and acknowledgement, all routes"},
		{"fetch", Bytes(s.FetchMaxBytes).String(), "asked of one broker at a time"},
		{"fetch_partition", Bytes(s.FetchMaxPartition).String(), "of it for one partition"},
		{"poll_every", s.PollEvery.String(), "least time between polls"},
		{"slab", Bytes(s.SlabBytes).String(), "one Publish request is sealed here, or at 1000 messages"},
		{"in_flight", fmt.Sprint(s.InFlight), "requests of one route at a time"},
		{"linger", s.Linger.String(), "wait of a partial request"},
		{"GOMEMLIMIT", Bytes(s.GOMEMLIMIT).String(), "soft limit of the Go heap"},
		{"GOGC", fmt.Sprint(s.GOGC), "heap growth between collections, percent"},
	}
}

// containerLimit returns the memory limit of the control group, 0 for none.
func containerLimit() Bytes {
	n, err := memlimit.FromCgroup()
	if err != nil || n > math.MaxInt64 {
		return 0 // no group, no limit or not Linux: all mean that none is known
	}
	return Bytes(n)
}

// processMemory decides between what was asked for and the container's limit;
// 0 stands for not given. It refuses more than the container has, because the
// kernel would end the process under the first backlog.
func processMemory(asked, limit Bytes) (Bytes, error) {
	switch {
	case asked == 0 && limit == 0:
		return noLimitMemory, nil
	case asked == 0:
		return limit, nil
	case limit != 0 && asked > limit:
		return 0, fmt.Errorf("BRIDGE_MEMORY %v is more than the container's limit of %v", asked, limit)
	default:
		return asked, nil
	}
}
