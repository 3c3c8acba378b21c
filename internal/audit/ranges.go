package audit

import (
	"cmp"
	"slices"
)

// Range is offsets of one partition, From first and To next after the last.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// ranges is a set of offsets: sorted, none empty, none touching the next.
type ranges []Range

// union makes a set of ranges in any order.
func union(all ...Range) ranges {
	return joined(all, 0)
}

// joined is union, with sets that are at most apart offsets from each other
// made one.
func joined(all []Range, apart int64) ranges {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	var out ranges
	for _, r := range sorted {
		switch last := len(out) - 1; {
		case r.From >= r.To:
		case last >= 0 && r.From-out[last].To <= apart:
			out[last].To = max(out[last].To, r.To)
		default:
			out = append(out, r)
		}
	}
	return out
}

// and returns the offsets that are in both.
func (s ranges) and(t ranges) ranges {
	var out ranges
	for i, j := 0, 0; i < len(s) && j < len(t); {
		if r := (Range{max(s[i].From, t[j].From), min(s[i].To, t[j].To)}); r.From < r.To {
			out = append(out, r)
		}
		if s[i].To < t[j].To {
			i++
		} else {
			j++
		}
	}
	return out
}

// without returns the offsets of s that are not in t.
func (s ranges) without(t ranges) ranges {
	var out ranges
	j := 0
	for _, r := range s {
		for j < len(t) && t[j].To <= r.From {
			j++
		}
		for k := j; k < len(t) && t[k].From < r.To; k++ {
			if t[k].From > r.From {
				out = append(out, Range{r.From, t[k].From})
			}
			r.From = max(r.From, t[k].To)
		}
		if r.From < r.To {
			out = append(out, r)
		}
	}
	return out
}

// count returns the number of offsets.
func (s ranges) count() int64 {
	n := int64(0)
	for _, r := range s {
		n += r.To - r.From
	}
	return n
}
