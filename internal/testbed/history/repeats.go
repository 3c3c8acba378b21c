package history

// incident is a moment after which records that were not committed may be
// stored once more.
type incident struct {
	next map[*log]int64 // committed then
}

// Incident notes that what is not committed now may be published again once:
// a kill, a stop with an unhealthy side, a revoke whose drain did not finish.
// Cutting a connection is one too: an answer may be lost on it. A graceful stop
// with healthy sides is none. It returns the number of records that are stored
// and not committed, which bounds the repeats of what was stored by now.
func (h *History) Incident(what, who string) (exposed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring.add("INCIDENT", Partition{}, 0, 0, what+" "+who)
	i := incident{next: make(map[*log]int64, len(h.logs))}
	for _, l := range h.logs {
		i.next[l] = max(0, l.committed)
		for o := i.next[l]; o < int64(len(l.slots)); o++ {
			if l.slots[o].stored > 0 {
				exposed++
			}
		}
	}
	h.incidents = append(h.incidents, i)
	return exposed
}

// Note adds a line to the history that is not judged.
func (h *History) Note(what, who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring.add("NOTE", Partition{}, 0, 0, what+" "+who)
}

// repeat judges a copy that is not the first. One whose predecessor's answer
// was spoiled is explained by that; any other needs an incident at which the
// record was not committed, and each incident explains one copy of a record.
// The caller holds mu.
func (h *History) repeat(l *log, c *claim, s *slot) {
	if s.has(spoiled) {
		return
	}
	if s.excess < 1<<16-1 {
		s.excess++
	}
	explained := 0
	for _, i := range h.incidents {
		if i.next[l] <= c.o {
			explained++
		}
	}
	if int(s.excess) > explained {
		h.breach("I9", "%v offset %d: repeat %d without a spoiled answer, and only %d incidents explain one", c.p, c.o, s.excess, explained)
	}
}
