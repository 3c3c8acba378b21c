//go:build synctests

package sim_test

import (
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/sim"
)

// weather is what Pub/Sub is like at the moment. Faults that come by chance
// depend on seed, topic, key and attempt alone; commands switch the others.
type weather struct {
	plan   *plan
	poison map[string]bool // destinations with a schema that some records break
	excuse func(string)    // told before answers are lost
	wrong  func(string)    // told what must not be

	mu       sync.Mutex // guards what follows
	chance   bool       // faults by chance go on
	denied   map[string]codes.Code
	refusing map[string]bool // refuses everything
	slow     time.Duration
}

func newWeather(p *plan, excuse, wrong func(string)) *weather {
	w := &weather{
		plan: p, poison: map[string]bool{}, excuse: excuse, wrong: wrong, chance: true,
		denied: map[string]codes.Code{}, refusing: map[string]bool{}, slow: p.delay,
	}
	for i := range p.routes {
		w.poison[p.routes[i].destination()] = p.has("poison")
	}
	return w
}

// deny answers every request for topic with code until it is OK.
func (w *weather) deny(topic string, code codes.Code) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied[topic] = code
}

func (w *weather) refuse(topic string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusing[topic] = on
}

// heal ends everything but the schemas of topics whose poison is parked.
func (w *weather) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chance, w.slow = false, min(w.slow, 100*time.Millisecond)
	clear(w.denied)
	clear(w.refusing)
	for i := range w.plan.routes {
		if r := &w.plan.routes[i]; !r.parks {
			w.poison[r.destination()] = false
		}
	}
}

// script is the fault of one request.
func (w *weather) script(r *fakepubsub.Request) fakepubsub.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	delay := time.Duration(fakepubsub.Draw(w.plan.seed+1, r) * float64(w.slow))
	if code := w.denied[r.Topic]; code != codes.OK {
		return fakepubsub.Fault{Delay: delay, Code: code, Text: "switched"}
	}
	if w.chance {
		if f, hit := w.byChance(r); hit {
			f.Delay = delay
			if f.Cut {
				w.excuse("an answer is cut")
			}
			return f
		}
	}
	dead := r.Topic == sim.Destination(deadLetters)
	if !dead && (w.refusing[r.Topic] || w.poison[r.Topic] && r.Any(w.isPoison)) {
		return fakepubsub.Fault{Delay: delay, Code: codes.InvalidArgument, Text: "schema"}
	}
	return fakepubsub.Fault{Delay: delay, Hold: delay / 2}
}

// isPoison chooses records by the hash of seed and key.
func (w *weather) isPoison(m *fakepubsub.Message) bool {
	return draw(w.plan.seed+2, string(m.Key())) < w.plan.poison
}

// parked judges that what Pub/Sub is said to have refused is what it refuses: a
// record of a healthy destination has nothing to do on a dead-letter topic.
func (w *weather) parked(topic string, m *fakepubsub.Message) {
	refused := string(m.Attribute("mskbridge_reason")) == "refused"
	if topic == sim.Destination(deadLetters) && refused && !w.isPoison(m) && !w.plan.has("refuses everything") {
		w.wrong(fmt.Sprintf("%s was parked, but nothing refuses it (%s)", m.Key(), m.Attribute("mskbridge_detail")))
	}
}

// byChance tries each kind of fault that the seed has.
func (w *weather) byChance(r *fakepubsub.Request) (fakepubsub.Fault, bool) {
	pick := func(salt uint64, of []codes.Code) codes.Code {
		return of[int(fakepubsub.Draw(w.plan.seed+salt, r)*float64(len(of)))]
	}
	hit := func(class string, salt uint64, scale float64) bool {
		return w.plan.has(class) && fakepubsub.Draw(w.plan.seed+salt, r) < w.plan.chance*scale
	}
	switch {
	case hit("codes", 10, 1):
		return fakepubsub.Fault{Code: pick(20, retryable())}, true
	case hit("stored", 11, 1):
		return fakepubsub.Fault{Code: pick(20, retryable()), Stored: true}, true
	case hit("burst", 12, 0.5) || w.plan.has("burst") && r.Attempt <= 6 && draw(w.plan.seed+13, r.Key) < 0.2:
		return fakepubsub.Fault{Code: codes.ResourceExhausted, Text: "quota exceeded"}, true
	case hit("hang", 14, 0.2):
		return fakepubsub.Fault{Hang: true, Stored: fakepubsub.Draw(w.plan.seed+15, r) < 0.5}, true
	case hit("ids", 16, 0.5):
		return fakepubsub.Fault{Ids: -1, Stored: true}, true
	case hit("more ids", 17, 0.5):
		return fakepubsub.Fault{Ids: 1}, true
	case hit("held codes", 18, 0.2):
		return fakepubsub.Fault{Code: pick(20, heldCodes())}, true
	case hit("cut answers", 19, 0.3):
		return fakepubsub.Fault{Cut: true, Stored: fakepubsub.Draw(w.plan.seed+15, r) < 0.7}, true
	default:
		return fakepubsub.Fault{}, false
	}
}

// draw is a number in [0, 1) that depends on seed and key only.
func draw(seed uint64, key string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	x := h.Sum64() ^ seed*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}
