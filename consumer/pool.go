package consumer

import (
	"math/bits"
	"sync"
)

// Slab buffers come in powers of two from 512 bytes, which is for single
// keys, up to 16 MiB; a larger one (a record that Pub/Sub can never take) is
// made for its record alone.
const (
	minTier = 9
	maxTier = 24
)

// slabPool hands out buffers without clearing them. Safe for concurrent use.
type slabPool struct {
	tiers [maxTier - minTier + 1]sync.Pool
}

// get returns an empty buffer with room for at least n bytes.
func (p *slabPool) get(n int) []byte {
	tier := max(bits.Len(uint(max(n, 1)-1)), minTier)
	if tier > maxTier {
		return make([]byte, 0, n)
	}
	if b, ok := p.tiers[tier-minTier].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<tier)
}

// put takes a buffer back. Nobody may read it any more.
func (p *slabPool) put(b []byte) {
	tier := bits.Len(uint(cap(b))) - 1
	if tier < minTier || tier > maxTier || cap(b) != 1<<tier {
		return
	}
	p.tiers[tier-minTier].Put(&b)
}

// grow makes room for n more bytes at the end of b.
func (p *slabPool) grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	bigger := append(p.get(len(b)+n), b...)
	p.put(b)
	return bigger
}
