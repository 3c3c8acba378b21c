package history

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// claim is what a message says of itself.
type claim struct {
	p     Partition
	o     int64
	epoch int32
	c     sums
	order string // ordering key
	err   error  // the key is not what it should be
	wrap  error  // the envelope is not what it should be
}

// Stored judges messages as the fake Pub/Sub stores them.
func (h *History) Stored(topic string, ms []fakepubsub.Message) {
	claims := h.claims(topic, ms, true)
	if len(claims) == 0 {
		return
	}
	dead := slices.Contains(h.o.DeadLetters, topic)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring.add(storeKind(dead), claims[0].p, claims[0].o, claims[len(claims)-1].o+1, topic)
	for i := range claims {
		c := &claims[i]
		switch {
		case c.err != nil:
			h.breach("I6", "%s: %v", topic, c.err)
		case !dead && h.o.Routes[topic] != c.p.Topic:
			h.breach("I5", "%s holds a record of %v, which has no route there", topic, c.p)
		default:
			h.store(c, dead)
		}
	}
}

func storeKind(dead bool) string {
	if dead {
		return "DEAD"
	}
	return "PUB"
}

// Acknowledged notes that the answer to ms is good.
func (h *History) Acknowledged(topic string, ms []fakepubsub.Message) {
	claims := h.claims(topic, ms, false)
	done := acked
	if slices.Contains(h.o.DeadLetters, topic) {
		done = parkAcked
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range claims {
		c := &claims[i]
		if c.err != nil || h.log(c.p).far(c.o) {
			continue
		}
		s := h.log(c.p).of(c.o, c.epoch)
		s.flags = s.flags&^spoiled | done
	}
}

// store judges one message with a sound key. The caller holds mu.
func (h *History) store(c *claim, dead bool) {
	l := h.log(c.p)
	if l.far(c.o) {
		h.breach("I5", "%v offset %d is stored, far beyond the last known record", c.p, c.o)
		return
	}
	s := l.of(c.o, c.epoch)
	if s.known && s.epoch != c.epoch {
		h.breach("I6", "%v offset %d: key with leader epoch %d, earlier with %d", c.p, c.o, c.epoch, s.epoch)
	}
	if s.has(produced) && s.has(invisible) {
		h.breach("I5", "%v offset %d is stored although its transaction aborted", c.p, c.o)
	}
	if c.wrap != nil {
		h.breach("I7", "%v offset %d: %v", c.p, c.o, c.wrap)
	}
	if s.has(produced) || s.known {
		h.compare(c.p, c.o, s, c.c)
	} else {
		s.value, s.key = c.c.value, c.c.key
		if !c.c.partial {
			s.headers = c.c.headers
			s.flags |= headed
		}
	}
	if s.has(passed) && !s.has(exempt) {
		h.breach("I2", "%v offset %d is stored for the first time after a commit passed it", c.p, c.o)
		s.flags &^= passed
	}
	s.epoch, s.known = c.epoch, true
	first := s.stored == 0 && !s.has(parked)
	if first && !dead {
		h.order(l, c)
	}
	if !first {
		h.repeat(l, c, s)
	}
	s.flags |= spoiled
	if dead {
		s.flags |= parked
		return
	}
	if s.stored < 1<<16-1 {
		s.stored++
	}
}

// claims reads what ms say of themselves; full also sums their contents. A
// message on a dead-letter topic without a key is not a record.
func (h *History) claims(topic string, ms []fakepubsub.Message, full bool) []claim {
	dead := slices.Contains(h.o.DeadLetters, topic)
	if _, ours := h.o.Routes[topic]; !ours && !dead {
		return nil
	}
	out := make([]claim, 0, len(ms))
	for i := range ms {
		if dead && ms[i].Key() == nil {
			continue
		}
		c := h.claim(&ms[i])
		if full && c.err == nil {
			c.c, c.order = sumsOfMessage(&ms[i]), string(ms[i].OrderingKey)
			if form, wrapped := h.o.Envelopes[c.p.Topic]; wrapped {
				c.c, c.wrap = h.unwrap(form, &c, &ms[i])
			}
		}
		out = append(out, c)
	}
	return out
}

// claim takes the idempotency key apart and holds it against the attributes:
//
//	v1/<cluster>/<topic>/<topic id, base64url, or ->/<partition>/<leader epoch>/<offset>
func (h *History) claim(m *fakepubsub.Message) claim {
	key := string(m.Key())
	bad := func(why string) claim { return claim{err: fmt.Errorf("key %q: %s", key, why)} }
	parts := strings.Split(key, "/")
	if len(parts) != 7 || parts[0] != "v1" {
		return bad("not of the form v1/cluster/topic/id/partition/epoch/offset")
	}
	if parts[1] != h.o.Cluster {
		return bad("cluster is not " + h.o.Cluster)
	}
	c := claim{p: Partition{Topic: parts[2]}}
	if parts[3] != "-" {
		id, err := base64.RawURLEncoding.DecodeString(parts[3])
		if err != nil || len(id) != 16 {
			return bad("topic id is not 16 bytes in base64url")
		}
		c.p.ID = [16]byte(id)
	}
	partition, ok1 := number(parts[4], 31)
	epoch, ok2 := number(parts[5], 31)
	offset, ok3 := number(parts[6], 63)
	if !ok1 || !ok2 || !ok3 || partition < 0 || epoch < -1 || offset < 0 {
		return bad("partition, epoch or offset is not a plain number in range")
	}
	c.p.Partition, c.epoch, c.o = int32(partition), int32(epoch), offset
	if string(m.Attribute("kafka_topic")) != parts[2] || string(m.Attribute("kafka_partition")) != parts[4] ||
		string(m.Attribute("kafka_offset")) != parts[6] {
		return bad("kafka_topic, kafka_partition or kafka_offset says otherwise")
	}
	return c
}

// number parses s, a number of up to bits bits, in its only spelling.
func number(s string, bits int) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, bits+1)
	if err != nil {
		return 0, false
	}
	var b [20]byte
	return n, string(strconv.AppendInt(b[:0], n, 10)) == s
}
