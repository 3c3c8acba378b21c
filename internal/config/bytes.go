package config

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// Bytes is a number of bytes, written as 268435456, 256MiB or 256 MB.
type Bytes int64

const (
	kib Bytes = 1 << 10
	mib Bytes = 1 << 20
)

// String is the number in the largest binary unit that needs no fraction.
func (b Bytes) String() string {
	for _, u := range []struct {
		size Bytes
		name string
	}{{1 << 30, "GiB"}, {mib, "MiB"}, {kib, "KiB"}} {
		if b >= u.size && b%u.size == 0 {
			return fmt.Sprintf("%d%s", b/u.size, u.name)
		}
	}
	if b >= 10*mib {
		return fmt.Sprintf("%.1fMiB", float64(b)/float64(mib))
	}
	return fmt.Sprintf("%dB", int64(b))
}

// UnmarshalText reads a size. It refuses zero, negative and overlong numbers.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil {
		return fmt.Errorf("reading size: %w", err)
	}
	if n == 0 || n > math.MaxInt64 {
		return fmt.Errorf("size must be above 0 and below 8EiB")
	}
	*b = Bytes(n)
	return nil
}
