package config

import (
	"strings"
	"testing"
	"time"
)

func TestDeriveSizes(t *testing.T) {
	for _, c := range []struct {
		name                           string
		memory                         Bytes
		profile                        string
		brokers                        int
		window, fetch, partition, slab Bytes
		limit                          Bytes
		linger, poll                   time.Duration
	}{
		// The rows of performance.md 4, "Memory": container = GOMEMLIMIT + 12 MiB.
		{"36 MiB heap", 48 * mib, "latency", 3, 2 * mib, 128 * kib, 64 * kib, 256 * kib, 36 * mib, 0, 0},
		{"52 MiB heap", 64 * mib, "latency", 3, 4 * mib, 256 * kib, 64 * kib, 512 * kib, 52 * mib, 0, 0},
		{"80 MiB heap", 96 * mib, "balanced", 3, 8 * mib, 512 * kib, 256 * kib, 1 * mib, 96 * mib * 85 / 100, 10 * time.Millisecond, 20 * time.Millisecond},
		{"110 MiB heap", 128 * mib, "balanced", 3, 16 * mib, 1 * mib, 256 * kib, 2 * mib, 128 * mib * 85 / 100, 10 * time.Millisecond, 20 * time.Millisecond},
		{"220 MiB heap", 256 * mib, "balanced", 3, 32 * mib, 4 * mib, 256 * kib, 4 * mib, 256 * mib * 85 / 100, 10 * time.Millisecond, 20 * time.Millisecond},
		{"cost", 512 * mib, "cost", 1, 64 * mib, 4 * mib, 256 * kib, 4 * mib, 512 * mib * 85 / 100, 100 * time.Millisecond, 100 * time.Millisecond},
		{"latency fetches less", 512 * mib, "latency", 3, 64 * mib, 1 * mib, 64 * kib, 4 * mib, 512 * mib * 85 / 100, 0, 0},
		{"twelve brokers share", 256 * mib, "balanced", 12, 32 * mib, 1 * mib, 256 * kib, 4 * mib, 256 * mib * 85 / 100, 10 * time.Millisecond, 20 * time.Millisecond},
		{"window has an end", 16 << 30, "balanced", 3, 256 * mib, 4 * mib, 256 * kib, 4 * mib, (16 << 30) * 85 / 100, 10 * time.Millisecond, 20 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DeriveSizes(c.memory, c.profile, c.brokers)
			if err != nil {
				t.Fatal(err)
			}
			want := Sizes{
				Memory: c.memory, Window: int64(c.window), FetchMaxBytes: int32(c.fetch), FetchMaxPartition: int32(c.partition),
				SlabBytes: int(c.slab), InFlight: 16, Linger: c.linger, PollEvery: c.poll, GOMEMLIMIT: int64(c.limit), GOGC: 400,
			}
			if got != want {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// TestSizesFitMemory checks the live heap by the formula of performance.md 7
// for three brokers, 200-byte records with three headers and 100 partitions.
func TestSizesFitMemory(t *testing.T) {
	const e = 1 + (180+56*3)/285.0
	for memory := leastMemory; memory <= 2048*mib; memory += 4 * mib {
		s, err := DeriveSizes(memory, ProfileBalanced, 3)
		if err != nil {
			t.Fatal(err)
		}
		live := float64(25*mib) + 100*13*1024 + 2*3*float64(s.FetchMaxBytes)*e + 1.5*float64(s.Window)
		if live > float64(s.GOMEMLIMIT) {
			t.Errorf("%v: live heap of %v does not fit %v", memory, Bytes(live), Bytes(s.GOMEMLIMIT))
		}
		if Bytes(s.GOMEMLIMIT) > memory-12*mib {
			t.Errorf("%v: GOMEMLIMIT %v leaves less than 12MiB", memory, Bytes(s.GOMEMLIMIT))
		}
	}
}

func TestProcessMemory(t *testing.T) {
	for _, c := range []struct {
		name               string
		asked, limit, want Bytes
	}{
		{"nothing known", 0, 0, 512 * mib},
		{"container", 0, 256 * mib, 256 * mib},
		{"asked", 128 * mib, 256 * mib, 128 * mib},
		{"asked without container", 2 << 30, 0, 2 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := processMemory(c.asked, c.limit)
			if err != nil || got != c.want {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
	if _, err := processMemory(512*mib, 256*mib); err == nil {
		t.Error("more than the container has was accepted")
	}
}

func TestSizesPrinted(t *testing.T) {
	s, err := DeriveSizes(256*mib, ProfileBalanced, 3)
	if err != nil {
		t.Fatal(err)
	}
	const want = "memory 256MiB, window 32MiB, fetch 4MiB, fetch_partition 256KiB, poll_every 20ms, slab 4MiB, in_flight 16, linger 10ms, GOMEMLIMIT 217.6MiB, GOGC 400"
	if got := s.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if n := strings.Count(s.Table(), "\n"); n != 10 {
		t.Errorf("table has %d lines:\n%s", n, s.Table())
	}
}

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Bytes
		text string
	}{
		{"268435456", 256 * mib, "256MiB"},
		{"256MiB", 256 * mib, "256MiB"},
		{"256 mib", 256 * mib, "256MiB"},
		{"0.5GiB", 512 * mib, "512MiB"},
		{"1GiB", 1 << 30, "1GiB"},
		{"64kib", 64 * kib, "64KiB"},
		{"100MB", 100_000_000, "95.4MiB"},
		{"1023", 1023, "1023B"},
	} {
		var b Bytes
		if err := b.UnmarshalText([]byte(c.in)); err != nil || b != c.want || b.String() != c.text {
			t.Errorf("%q: got %d (%v), %v", c.in, int64(b), b, err)
		}
	}
	for _, in := range []string{"", "MiB", "12 parsecs", "-1", "0", "9EiB"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q gives %v", in, b)
		}
	}
}
