//go:build synctests

package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/message"
)

// kinds of faults and of other things that a seed may have. Each seed enables a
// random subset, so that rare pairs meet (swarm testing).
var (
	// harmless kinds are compatible with "no record is published twice".
	harmless = []string{"transactions", "unfit", "small window"}
	groupish = []string{"members", "partitions added"}
	rough    = []string{
		"codes", "stored", "burst", "hang", "ids", "more ids", "held codes", "cut answers", "slow",
		"poison", "topic missing", "topic denied", "dead letters missing", "dead letters denied", "refuses everything",
		"cut pubsub", "hole pubsub", "go away", "cut all",
	}
	roughGroup = []string{
		"kill", "leaders", "coordinators", "brokers", "commit errors", "fetch errors", "group errors", "offset errors",
		"cut kafka", "hole kafka", "hole both", "trim",
	}
)

// command is one step of a scenario.
type command struct {
	at   time.Duration
	what string
	do   func(*stage)
}

// plan is what a seed stands for: nothing in it depends on what happens.
type plan struct {
	seed     uint64
	kinds    []string
	routes   []route
	brokers  int
	sizes    consumer.Sizes
	session  time.Duration
	delay    time.Duration // of each answer of Pub/Sub, at most
	chance   float64       // of each kind of fault by chance, per attempt
	poison   float64       // share of the records that break the schema
	length   time.Duration // of the rough phase
	records  int
	commands []command
}

func (p *plan) has(kind string) bool { return slices.Contains(p.kinds, kind) }

// calm reports whether nothing happens that excuses a repeated record.
func (p *plan) calm() bool {
	return !slices.ContainsFunc(p.kinds, func(k string) bool {
		return slices.Contains(rough, k) || slices.Contains(roughGroup, k)
	})
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v of %d records, %d brokers, session %v, answers within %v, chance %.2f, poison %.3f, sizes %+v\nkinds: %s\n",
		p.seed, p.length, p.records, p.brokers, p.session, p.delay, p.chance, p.poison, p.sizes, strings.Join(p.kinds, ", "))
	for _, r := range p.routes {
		fmt.Fprintf(&b, "route %+v\n", r)
	}
	for _, c := range p.commands {
		fmt.Fprintf(&b, "%9v %s\n", c.at.Round(time.Millisecond), c.what)
	}
	return b.String()
}

// newPlan turns a seed into a scenario.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 0x627269646765)) //nolint:gosec // reproducible on purpose
	p := &plan{seed: seed, brokers: 1 + r.IntN(3), session: time.Duration(6+r.IntN(15)) * time.Second}
	p.choose(r)
	for i := range 1 + r.IntN(3) {
		p.routes = append(p.routes, route{
			topic:      []string{"orders", "payments", "shop.prices"}[i],
			partitions: int32(1 + r.IntN(3)),
			ordered:    i == 0 && r.IntN(3) > 0,
			parks:      r.IntN(4) > 0,
		})
	}
	p.sizes = consumer.Sizes{
		Window: 8 << 20, FetchMaxBytes: 1 << 20, FetchMaxPartition: int32(4<<10) << r.IntN(8),
		SlabBytes: (2 << 10) << r.IntN(6), InFlight: 1 + r.IntN(4),
		Linger: time.Duration(r.IntN(3)*10) * time.Millisecond, PollEvery: time.Duration(r.IntN(3)*20) * time.Millisecond,
	}
	if p.has("small window") {
		p.sizes.Window = int64(64<<10) << r.IntN(4)
		p.sizes.FetchMaxBytes = int32(min(p.sizes.Window, 128<<10))
	}
	p.delay = []time.Duration{0, 20 * time.Millisecond, 400 * time.Millisecond}[r.IntN(3)]
	if p.has("slow") {
		p.delay = time.Duration(1+r.IntN(12)) * time.Second
	}
	p.chance = []float64{0.03, 0.1, 0.3}[r.IntN(3)]
	p.poison = []float64{0.005, 0.02, 0.1}[r.IntN(3)]
	p.length = time.Duration(15+r.IntN(90)) * time.Second
	p.script(r)
	p.wrap()
	return p
}

// wrap gives half of the routes an envelope. It takes nothing from the source of
// chance, so that a seed stays the scenario that it was. What is not JSON is
// parked, so a route that parks nothing takes any bytes.
func (p *plan) wrap() {
	for i := range p.routes {
		r := &p.routes[i]
		formats := []message.Format{message.Raw, message.Raw, message.EnvelopeBytes, message.EnvelopeJSON}
		if r.format = formats[int(draw(p.seed+4, fmt.Sprint(r.topic, p.seed))*4)]; r.format == message.EnvelopeJSON && !r.parks {
			r.format = message.EnvelopeBytes
		}
	}
}

// choose enables a random subset of the kinds.
func (p *plan) choose(r *rand.Rand) {
	q := []float64{0, 0.08, 0.15, 0.3, 0.5}[r.IntN(5)]
	enable := func(kinds []string, q float64) {
		for _, k := range kinds {
			if r.Float64() < q {
				p.kinds = append(p.kinds, k)
			}
		}
	}
	enable(harmless, 0.25)
	enable(rough, q)
	enable(groupish, 0.6)
	enable(roughGroup, q)
	p.compatible()
}

// compatible takes away what kfake cannot do together: where an answer is full
// it does not name the aborted transactions, so it must not become full.
func (p *plan) compatible() {
	if p.has("transactions") {
		p.kinds = slices.DeleteFunc(p.kinds, func(k string) bool { return k == "unfit" || k == "small window" })
	}
}

// script writes the commands.
func (p *plan) script(r *rand.Rand) {
	p.writeRecords(r)
	p.writeMembers(r)
	p.writePubSub(r)
	p.writeKafka(r)
	slices.SortStableFunc(p.commands, func(a, b command) int { return int(a.at - b.at) })
}

func (p *plan) add(at time.Duration, do func(*stage), what string, args ...any) {
	p.commands = append(p.commands, command{at, fmt.Sprintf(what, args...), do})
}

// moment is a random time of the rough phase.
func (p *plan) moment(r *rand.Rand) time.Duration {
	return time.Duration(r.Int64N(int64(p.length)))
}

// window is a random period of at most limit; its end may lie after the rough
// phase, which ends everything.
func (p *plan) window(r *rand.Rand, limit time.Duration) (from, to time.Duration) {
	from = p.moment(r)
	return from, from + 100*time.Millisecond + time.Duration(r.Int64N(int64(limit)))
}

// some calls f a few times if the seed has the kind.
func (p *plan) some(r *rand.Rand, kind string, most int, f func()) {
	n := 1 + r.IntN(most)
	if !p.has(kind) {
		return
	}
	for range n {
		f()
	}
}

// anyRoute is the index of a random route.
func (p *plan) anyRoute(r *rand.Rand) int { return r.IntN(len(p.routes)) }
