package load

import (
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// MaxRecord is what a topic's max.message.bytes must allow: an unfit record
	// and its framing.
	MaxRecord = unfitBytes + 1<<20

	unfitBytes = 11_000_000 // above the 10,000,000 of Pub/Sub
	largeMin   = 2_000_000
	largeMax   = 6_000_000
)

// Options of a Generator.
type Options struct {
	Seed       uint64
	Topics     []string
	Partitions int32 // of each topic
	Records    int   // in all, large and unfit ones included
	Large      int   // records of 2 to 6 MB, spread evenly
	Unfit      int   // records of 11 MB, spread evenly
}

// Kind names what a record is like.
type Kind string

// The kinds and, for those drawn by chance, their weights in per mille.
const (
	Change    Kind = "change"    // JSON change event, text key: 560
	Avro      Kind = "avro"      // magic byte, schema id, binary: 250
	Tombstone Kind = "tombstone" // key, null value: 60
	NoKey     Kind = "no_key"    // null key: 50
	BinaryKey Kind = "binary_key"
	Headers   Kind = "headers" // repeated, binary, null and empty headers: 20
	Empty     Kind = "empty"   // empty value, empty key: 15
	Hostile   Kind = "hostile" // reserved names, 2,000 bytes, 150 headers, not UTF-8: 15
	Large     Kind = "large"
	Unfit     Kind = "unfit"
)

// kinds is searched in order: a draw below upTo is of that kind.
var kinds = []struct {
	upTo int
	kind Kind
}{
	{560, Change},
	{810, Avro},
	{870, Tombstone},
	{920, NoKey},
	{950, BinaryKey},
	{970, Headers},
	{985, Empty},
	{1000, Hostile},
}

// Generator makes the records of one load. Safe for concurrent use.
type Generator struct{ o Options }

// New returns the generator of a load.
func New(o Options) *Generator { return &Generator{o} }

// Len is the number of records.
func (g *Generator) Len() int { return g.o.Records }

// Kind returns what record i is like.
func (g *Generator) Kind(i int) Kind {
	_, k := g.draw(i)
	return k
}

// Record makes record i: topic, explicit partition, key, value, headers.
// The timestamp is left to the producer.
func (g *Generator) Record(i int) *kgo.Record {
	r, k := g.draw(i)
	rec := &kgo.Record{
		Topic:     g.o.Topics[i%len(g.o.Topics)],
		Partition: int32(i/len(g.o.Topics)) % g.o.Partitions,
	}
	fill(rec, k, r, i)
	return rec
}

// draw returns the source of chance for record i, and its kind.
func (g *Generator) draw(i int) (*rand.Rand, Kind) {
	r := rand.New(rand.NewPCG(g.o.Seed, uint64(i))) // reproducible on purpose
	n := r.IntN(1000)
	if big := g.o.Large + g.o.Unfit; spread(i, big, g.o.Records) {
		if spread(i*big/g.o.Records, g.o.Unfit, big) {
			return r, Unfit
		}
		return r, Large
	}
	for _, k := range kinds {
		if n < k.upTo {
			return r, k.kind
		}
	}
	return r, Change
}

// spread reports whether i is one of n points spread evenly over total.
func spread(i, n, total int) bool {
	if n <= 0 || total <= 0 {
		return false
	}
	n = min(n, total)
	// i is the last index of one of n equal parts.
	return (i+1)*n/total > i*n/total
}

// Topics returns n names as such users have them, legal in Kafka and Pub/Sub.
func Topics(n int) []string {
	areas := []string{"shop", "billing", "crm", "logistics"}
	things := []string{"orders", "payments", "customers", "shipments", "inventory", "prices"}
	forms := []string{"%s.%s", "%s-%s", "%s_%s_v1"}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(forms[i%len(forms)], areas[i%len(areas)], things[i/len(areas)%len(things)])
		if round := i / (len(areas) * len(things)); round > 0 {
			names[i] += fmt.Sprintf(".%d", round)
		}
	}
	return names
}
