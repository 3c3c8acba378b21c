package history_test

import (
	"strings"
	"testing"
)

func TestPlantedViolations(t *testing.T) {
	tests := []struct {
		name, want string
		plot       func(scene)
	}{
		{"record lost", "I1", func(s scene) { s.produce(3); s.pass(0, 2) }},
		{"stored, never acknowledged", "I1", func(s scene) { s.produce(1); s.store(dest, msg(rec(0))) }},
		{"parked, never acknowledged", "I1", func(s scene) { s.produce(1); s.store(dead, msg(rec(0))) }},
		{"commit before storing", "I2", func(s scene) { s.produce(2); s.pass(0, 1); s.commit(commit(2)) }},
		{"commit before acknowledgement", "I2", func(s scene) { s.produce(1); s.store(dest, msg(rec(0))); s.commit(commit(1)) }},
		{"commit before a record that is known later", "I2", func(s scene) { s.commit(commit(1)); s.produce(1); s.pass(0, 1) }},
		{"first copy after the commit", "I2", func(s scene) { s.commit(commit(1)); s.pass(0, 1) }},
		{"refused commit of too much", "I2", func(s scene) { s.produce(1); s.CommitSent(commit(1)) }},
		{"commit far beyond the end", "I2", func(s scene) { s.produce(1); s.pass(0, 1); s.commit(commit(1 << 40)) }},
		{"commit goes back", "I3", func(s scene) { s.produce(3); s.pass(0, 3); s.commit(commit(3)); s.commit(commit(2)) }},
		{"commit of a stranger", "I4", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			s.assign(1, "a", 0, 1)
			s.assign(1, "b", 2)
			s.commit(commit(1))
		}},
		{"commit of the owner before last", "I4", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			s.assign(1, "a", 2)
			s.assign(2, "b", 2)
			s.commit(edited(commit(1), "a", 2))
		}},
		{"two owners", "I4", func(s scene) { s.assign(1, "a", 2); s.assign(1, "b", 2) }},
		{"admin commit over a member's", "I4", func(s scene) {
			s.produce(2)
			s.pass(0, 2)
			s.commit(commit(1))
			s.commit(edited(commit(2), "", -1))
		}},
		{"message without record", "I5", func(s scene) { s.produce(1); s.pass(0, 2) }},
		{"message of a far offset", "I5", func(s scene) { s.deliver(dest, msg(rec(1<<31))) }},
		{"aborted record stored", "I5", func(s scene) { s.Aborted(id, rec(0)); s.pass(0, 1) }},
		{"stored record turns out aborted", "I5", func(s scene) { s.pass(0, 1); s.Aborted(id, rec(0)) }},
		{"record on another's destination", "I5", func(s scene) { s.produce(1); s.deliver("projects/p/topics/orders", msg(rec(0))) }},
		{"another cluster's key", "I6", func(s scene) {
			s.produce(1)
			s.deliver(dest, msg(rec(0), "idempotency_key", "v1/msk2/payments/AQIDAAAAAAAAAAAAAAAAAA/2/5/0"))
		}},
		{"no key", "I6", func(s scene) { s.deliver(dest, msg(rec(0), "idempotency_key", "")) }},
		{"second spelling of a key", "I6", func(s scene) {
			s.deliver(dest, msg(rec(0), "idempotency_key", "v1/msk/payments/AQIDAAAAAAAAAAAAAAAAAA/2/5/00"))
		}},
		{"key of another offset", "I6", func(s scene) { s.produce(2); s.deliver(dest, msg(rec(0), "kafka_offset", "1")) }},
		{"key with another epoch on the second copy", "I6", func(s scene) {
			s.produce(1)
			s.store(dest, msg(rec(0)))
			s.deliver(dest, msg(rec(0), "idempotency_key", "v1/msk/payments/AQIDAAAAAAAAAAAAAAAAAA/2/6/0"))
		}},
		{"key with another epoch than the log has", "I6", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			r := rec(0)
			r.LeaderEpoch++
			s.Read(place, r)
		}},
		{"value changed", "I7", func(s scene) { s.produce(1); s.deliver(dest, msg(rec(0), "data", "other")) }},
		{"value changed, record known later", "I7", func(s scene) { s.deliver(dest, msg(rec(0), "data", "other")); s.produce(1) }},
		{"key changed", "I7", func(s scene) { s.produce(1); s.deliver(dest, msg(rec(0), "kafka_key", "other")) }},
		{"null key made empty", "I7", func(s scene) {
			r := rec(0)
			r.Key = nil
			s.Produced(id, r)
			r.Key = []byte{}
			s.deliver(dest, msg(r))
		}},
		{"tombstone made empty", "I7", func(s scene) {
			r := rec(0)
			r.Value = nil
			s.Produced(id, r)
			s.deliver(dest, msg(r, "kafka_tombstone", ""))
		}},
		{"header lost", "I7", func(s scene) { s.produce(1); s.deliver(dest, msg(rec(0), "kafka_header_h", "")) }},
		{"header invented", "I7", func(s scene) {
			r := rec(0)
			r.Headers = nil
			s.Produced(id, r)
			s.deliver(dest, msg(r, "kafka_header_i", "x"))
		}},
		{"parked hash wrong", "I7", func(s scene) {
			s.produce(1)
			s.deliver(dead, msg(rec(0), "data", "", "mskbridge_sha256", strings.Repeat("ab", 32)))
		}},
		{"ordered record skips one", "I8", func(s scene) {
			s.produce(3)
			s.deliver(dest, msg(rec(0), "order", order))
			s.deliver(dest, msg(rec(2), "order", order))
			s.deliver(dest, msg(rec(1), "order", order))
		}},
		{"ordered record skips one that is known later", "I8", func(s scene) {
			s.deliver(dest, msg(rec(1), "order", order))
			s.produce(2)
			s.deliver(dest, msg(rec(0), "order", order))
		}},
		{"ordered by key, skips one of the key", "I8", func(s scene) {
			s.produce(3)
			s.deliver(dest, msg(rec(2), "order", "k0"))
			s.deliver(dest, msg(rec(1), "order", "k1"))
			s.deliver(dest, msg(rec(0), "order", "k0"))
		}},
		{"repeat for no reason", "I9", func(s scene) { s.produce(1); s.pass(0, 1); s.pass(0, 1) }},
		{"two repeats, one incident", "I9", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			s.Incident("kill", "a")
			s.pass(0, 1)
			s.pass(0, 1)
		}},
		{"repeat of a committed record after an incident", "I9", func(s scene) {
			s.produce(2)
			s.pass(0, 2)
			s.commit(commit(1))
			s.Incident("kill", "a")
			s.pass(0, 1)
		}},
		{"parked without report", "EVENTS", func(s scene) { s.produce(1); s.deliver(dead, msg(rec(0))) }},
		{"report without park", "EVENTS", func(s scene) { s.produce(1); s.pass(0, 1); s.ParkReported(place, 0) }},
		{"loss without report", "EVENTS", func(s scene) { s.produce(2); s.Trimmed(place, 0, 1); s.pass(1, 2) }},
		{"report without loss", "EVENTS", func(s scene) { s.produce(1); s.pass(0, 1); s.LossReported(place, 0, 1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			tt.plot(s)
			_, before := s.Violations()
			if err := s.Check(); err == nil && tt.want != "EVENTS" {
				t.Fatal("Check found nothing")
			} else if tt.want == "EVENTS" && err != nil {
				t.Fatalf("Check found %v", err)
			}
			err := s.CheckEvents()
			vs, _ := s.Violations()
			var seen []string
			for _, v := range vs {
				seen = append(seen, v.Invariant)
			}
			if len(seen) == 0 || seen[0] != tt.want {
				t.Fatalf("broken %v (%d before Check), want %s first: %v", seen, before, tt.want, err)
			}
		})
	}
}
