package audit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// offsets is a set the slow way.
func offsets(all []Range) map[int64]bool {
	out := make(map[int64]bool)
	for _, r := range all {
		for o := r.From; o < r.To; o++ {
			out[o] = true
		}
	}
	return out
}

// TestRangesAreSets compares each operation with a map of offsets.
func TestRangesAreSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := func() []Range {
		var out []Range
		for range rng.IntN(6) {
			from := rng.Int64N(40)
			out = append(out, Range{from, from + rng.Int64N(8)})
		}
		return out
	}
	for range 5000 {
		x, y := some(), some()
		a, b := union(x...), union(y...)
		inA, inB := offsets(x), offsets(y)
		both, only := a.and(b), a.without(b)
		for name, s := range map[string]ranges{"union": a, "and": both, "without": only} {
			for i, r := range s {
				if r.From >= r.To || i > 0 && r.From <= s[i-1].To {
					t.Fatalf("%s of %v and %v is no set: %v", name, x, y, s)
				}
			}
		}
		isBoth, isOnly := offsets(both), offsets(only)
		for o := range int64(60) {
			if isBoth[o] != (inA[o] && inB[o]) || isOnly[o] != (inA[o] && !inB[o]) || offsets(a)[o] != inA[o] {
				t.Fatalf("%v and %v: offset %d is in %v, %v, %v", x, y, o, a, both, only)
			}
		}
		if a.count() != int64(len(inA)) {
			t.Fatalf("%v counts %d", a, a.count())
		}
	}
}

func TestSpansReadTogether(t *testing.T) {
	tests := []struct {
		name string
		in   ranges
		want []Range
	}{
		{"near", ranges{{1, 2}, {102, 103}}, []Range{{1, 103}}},
		{"far", ranges{{1, 2}, {103, 104}}, []Range{{1, 2}, {103, 104}}},
		{"wide", ranges{{0, 9_990}, {10_050, 10_060}}, []Range{{0, 9_990}, {10_050, 10_060}}},
		{"one that is wide by itself", ranges{{0, 50_000}, {50_010, 50_020}}, []Range{{0, 50_000}, {50_010, 50_020}}},
	}
	for _, test := range tests {
		if got := spans(test.in); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
