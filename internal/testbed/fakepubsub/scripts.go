package fakepubsub

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
)

// Always is f for every request.
func Always(f Fault) Script { return func(*Request) Fault { return f } }

// Attempts is f for the first n attempts of each request, whatever the order in
// which requests arrive.
func Attempts(n int, f Fault) Script {
	return When(func(r *Request) bool { return r.Attempt <= n }, f)
}

// First is f for the first n requests that arrive.
func First(n int, f Fault) Script {
	var seen atomic.Int64
	return When(func(*Request) bool { return seen.Add(1) <= int64(n) }, f)
}

// When is f for the requests for which cond holds.
func When(cond func(*Request) bool, f Fault) Script {
	return func(r *Request) Fault {
		if cond(r) {
			return f
		}
		return Fault{}
	}
}

// Refuse is a schema: InvalidArgument for each request with a message for which
// bad holds.
func Refuse(bad func(*Message) bool) Script {
	return When(func(r *Request) bool { return r.Any(bad) },
		Fault{Code: codes.InvalidArgument, Text: "message does not conform to the schema of the topic"})
}

// Chance is f for the share p of all attempts, chosen by the hash of seed,
// topic, key and attempt.
func Chance(seed uint64, p float64, f Fault) Script {
	return When(func(r *Request) bool { return Draw(seed, r) < p }, f)
}

// Draw is a number in [0, 1) that depends on seed, topic, key and attempt only.
func Draw(seed uint64, r *Request) float64 {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(r.Attempt))
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(r.Topic))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(r.Key))
	x := h.Sum64() // FNV leaves the high bits weak: mix them as splitmix64 does
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return math.Ldexp(float64((x^x>>31)>>11), -53)
}

// Delay waits d(request) before storing.
func Delay(d func(*Request) time.Duration) Script {
	return func(r *Request) Fault { return Fault{Delay: d(r)} }
}

// Quota answers ResourceExhausted beyond perSecond messages with bursts of
// burst, which must be at least the largest request.
func Quota(perSecond float64, burst int) Script {
	l := rate.NewLimiter(rate.Limit(perSecond), burst)
	return When(func(r *Request) bool { return !l.AllowN(time.Now(), len(r.Messages)) },
		Fault{Code: codes.ResourceExhausted, Text: "quota exceeded"})
}

// Join asks each script and takes the first that is not the zero Fault.
func Join(scripts ...Script) Script {
	return func(r *Request) Fault {
		for _, s := range scripts {
			if f := s(r); f != (Fault{}) {
				return f
			}
		}
		return Fault{}
	}
}
