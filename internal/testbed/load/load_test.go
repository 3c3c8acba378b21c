package load_test

import (
	"bytes"
	"reflect"
	"regexp"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/mskbridge/mskbridge/internal/testbed/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var options = load.Options{Seed: 7, Topics: load.Topics(3), Partitions: 2, Records: 20_000, Large: 3, Unfit: 1}

func TestMixHasEveryKind(t *testing.T) {
	g := load.New(options)
	seen := map[load.Kind]int{}
	places := map[string]map[int32]int{}
	for i := range g.Len() {
		k := g.Kind(i)
		seen[k]++
		if k == load.Large || k == load.Unfit {
			continue
		}
		r := g.Record(i)
		if places[r.Topic] == nil {
			places[r.Topic] = map[int32]int{}
		}
		places[r.Topic][r.Partition]++
		wrong := map[load.Kind]bool{
			load.Tombstone: r.Value != nil || r.Key == nil,
			load.NoKey:     r.Key != nil,
			load.BinaryKey: utf8.Valid(r.Key),
			load.Avro:      len(r.Value) < 5 || r.Value[0] != 0,
			load.Empty:     r.Value == nil || len(r.Value) > 0 || r.Key == nil || len(r.Key) > 0,
			load.Headers:   len(r.Headers) != 8,
		}
		if wrong[k] {
			t.Fatalf("record %d is not what its kind %s says", i, k)
		}
	}
	want := []load.Kind{load.Change, load.Avro, load.Tombstone, load.NoKey, load.BinaryKey, load.Headers, load.Empty, load.Hostile}
	for _, k := range want {
		if seen[k] < 200 {
			t.Errorf("only %d of kind %s", seen[k], k)
		}
	}
	if seen[load.Large] != options.Large || seen[load.Unfit] != options.Unfit {
		t.Errorf("%d large and %d unfit, want %d and %d", seen[load.Large], seen[load.Unfit], options.Large, options.Unfit)
	}
	if len(places) != 3 || len(places[options.Topics[0]]) != 2 {
		t.Errorf("records went to %v, want all topics and partitions", places)
	}
}

func TestRecordDependsOnSeedAndIndexOnly(t *testing.T) {
	a, b := load.New(options), load.New(options)
	other := options
	other.Seed++
	c := load.New(other)
	var differ bool
	for i := range 500 {
		x := a.Record(i)
		if y := b.Record(i); !reflect.DeepEqual(x, y) {
			t.Fatalf("record %d differs between two generators", i)
		}
		differ = differ || !bytes.Equal(x.Value, c.Record(i).Value)
	}
	if !differ {
		t.Error("the seed makes no difference")
	}
}

func TestSizes(t *testing.T) {
	g := load.New(load.Options{Topics: load.Topics(1), Partitions: 1, Records: 2, Large: 1, Unfit: 1})
	var sizes []int
	for i := range g.Len() {
		sizes = append(sizes, len(g.Record(i).Value))
	}
	if sizes[0] < 2_000_000 || sizes[0] > 6_000_000 || sizes[1] != 11_000_000 {
		t.Errorf("sizes %v, want several MB and 11 MB", sizes)
	}
}

func TestTopicNames(t *testing.T) {
	legal := regexp.MustCompile(`^[a-z][a-z0-9._-]{2,248}$`)
	seen := map[string]bool{}
	for _, n := range load.Topics(100) {
		if !legal.MatchString(n) || seen[n] {
			t.Errorf("%q is illegal or a repeat", n)
		}
		seen[n] = true
	}
}
