package history

import (
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

// maxBeyond is how far a commit or a message may lie beyond all known records:
// transaction markers and records whose PROD is still to come.
const maxBeyond = 1 << 20

// place is a partition as assignments name it.
type place struct {
	topic     string
	partition int32
}

// partition resolves a commit's partition; without an id it is the newest
// incarnation. The caller holds mu.
func (h *History) partition(c fakekafka.Commit) Partition {
	id := c.TopicID
	if id == ([16]byte{}) {
		id = h.newest[c.Topic]
	}
	return Partition{c.Topic, id, c.Partition}
}

// CommitSent judges that everything visible below the commit is acknowledged.
func (h *History) CommitSent(c fakekafka.Commit) {
	if c.Group != h.o.Group {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.partition(c)
	h.ring.add("COMMIT?", p, c.Next, c.Next, c.Member)
	l := h.log(p)
	if l.far(c.Next) {
		h.breach("I2", "%v: commit of %d lies far beyond the last known record %d", p, c.Next, len(l.slots)-1)
		return
	}
	for o := l.scanned; o < c.Next; o++ {
		s := l.at(o)
		if s.settled() {
			continue
		}
		if s.has(produced) || s.known {
			h.breach("I2", "%v: commit of %d by %s passes offset %d, which has no acknowledgement", p, c.Next, c.Member, o)
			continue
		}
		s.flags |= passed
	}
	l.scanned = max(l.scanned, c.Next)
}

// CommitAccepted judges that commits do not go back and come from the owner.
func (h *History) CommitAccepted(c fakekafka.Commit) {
	if c.Group != h.o.Group {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.partition(c)
	h.ring.add("COMMIT", p, c.Next, c.Next, c.Member)
	l := h.log(p)
	if c.Next < l.committed {
		h.breach("I3", "%v: commit went back from %d to %d", p, l.committed, c.Next)
	}
	h.owned(l, c)
	l.committed = c.Next
}

// owned judges the member. A cooperative member commits what was revoked in the
// generation that already lacks it, so the owner of the generation before may
// commit while nobody has the partition. A commit without member is the start
// offset of a partition that has no commit.
func (h *History) owned(l *log, c fakekafka.Commit) {
	if c.Generation < 0 {
		if l.committed >= 0 {
			h.breach("I4", "%v: commit of %d without membership", l.p, c.Next)
		}
		return
	}
	at := place{c.Topic, c.Partition}
	now, known := h.owners[c.Generation]
	if !known {
		return // observing began later
	}
	owner, given := now[at]
	before, known := h.owners[c.Generation-1]
	if !given && (!known || before[at] == c.Member) {
		return
	}
	if owner != c.Member {
		h.breach("I4", "%v: commit of %d by %s in generation %d, whose owner is %q", l.p, c.Next, c.Member, c.Generation, owner)
	}
}

// Assigned notes who owns what.
func (h *History) Assigned(a fakekafka.Assignment) {
	if a.Group != h.o.Group {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.owners[a.Generation]
	if g == nil {
		g = map[place]string{}
		h.owners[a.Generation] = g
	}
	delete(h.owners, a.Generation-8)
	for topic, ps := range a.Topics {
		for _, p := range ps {
			h.ring.add("ASSIGN", Partition{Topic: topic, Partition: p}, int64(a.Generation), int64(a.Generation), a.Member)
			if other, taken := g[place{topic, p}]; taken && other != a.Member {
				h.breach("I4", "%s/%d has two owners in generation %d", topic, p, a.Generation)
			}
			g[place{topic, p}] = a.Member
		}
	}
}

// Reset allows the commits of p to go back, once: an operator reset the group.
func (h *History) Reset(p Partition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring.add("RESET", p, 0, 0, "")
	l := h.log(p)
	l.committed = -1
}
