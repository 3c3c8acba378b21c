package history

import (
	"strconv"
)

// order judges a record that is stored for the first time under an ordering
// key: all earlier records of that key and partition must have been stored, or
// parked, before. The caller holds mu.
func (h *History) order(l *log, c *claim) {
	if c.order == "" {
		return
	}
	whole := c.order == c.p.Topic+"/"+strconv.Itoa(int(c.p.Partition))
	for o := l.front[c.order]; o < c.o; o++ {
		s := l.at(o)
		if s.stored > 0 || s.has(parked|exempt|invisible) {
			continue
		}
		if !s.has(produced) {
			if whole {
				s.flags |= skipped // judged when it turns out to be a record
			}
			continue
		}
		if whole || s.key == c.c.key {
			h.breach("I8", "%v offset %d is stored before offset %d of the same ordering key", c.p, c.o, o)
		}
	}
	l.front[c.order] = max(l.front[c.order], c.o+1)
}
