package history_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestSoundStories(t *testing.T) {
	tests := []struct {
		name string
		plot func(scene)
	}{
		{"straight", func(s scene) { s.produce(5); s.pass(0, 5); s.commit(commit(3)); s.commit(commit(5)) }},
		{"stored before the producer knew", func(s scene) { s.pass(0, 2); s.commit(commit(2)); s.produce(2) }},
		{"markers passed", func(s scene) { s.produce(1); s.pass(0, 1); s.commit(commit(3)) }},
		{"aborted passed", func(s scene) { s.Aborted(id, rec(0)); s.commit(commit(1)) }},
		{"aborted passed, known later", func(s scene) { s.commit(commit(1)); s.Aborted(id, rec(0)) }},
		{"spoiled answer, sent again", func(s scene) { s.produce(1); s.store(dest, msg(rec(0))); s.store(dest, msg(rec(0))); s.pass(0, 1) }},
		{"repeat after a kill", func(s scene) {
			s.produce(2)
			s.pass(0, 2)
			s.commit(commit(1))
			s.Incident("kill", "a")
			s.pass(1, 2)
		}},
		{"refused commit sent again, lower", func(s scene) { s.produce(2); s.pass(0, 2); s.CommitSent(commit(2)); s.commit(commit(1)) }},
		{"operator's reset", func(s scene) { s.produce(2); s.pass(0, 2); s.commit(commit(2)); s.Reset(place); s.commit(commit(0)) }},
		{"cooperative revoke", func(s scene) {
			s.produce(1)
			s.pass(0, 1)
			s.assign(1, "a", 1, 2)
			s.assign(2, "a", 1)
			s.assign(2, "b")
			s.commit(edited(commit(1), "a", 2))
			s.assign(3, "b", 2)
			s.commit(edited(commit(1), "b", 3))
		}},
		{"start offset by nobody", func(s scene) { s.Exempt(place, 0, 2); s.commit(edited(commit(2), "", -1)) }},
		{"another group", func(s scene) { s.produce(1); s.pass(0, 1); c := commit(1); c.Group = "other"; s.commit(c) }},
		{"parked by hash", func(s scene) {
			s.produce(1)
			s.deliver(dead, msg(rec(0), "data", "", "mskbridge_sha256", sha("v0")))
			s.ParkReported(place, 0)
			s.commit(commit(1))
		}},
		{"order, repeats jump back", func(s scene) {
			s.produce(4)
			for _, o := range []int64{0, 1, 2} {
				s.store(dest, msg(rec(o), "order", order))
			}
			for o := range int64(4) {
				s.deliver(dest, msg(rec(o), "order", order))
			}
		}},
		{"order by key, keys apart", func(s scene) {
			s.produce(3)
			s.deliver(dest, msg(rec(1), "order", "k1"))
			s.deliver(dest, msg(rec(0), "order", "k0"))
			s.deliver(dest, msg(rec(2), "order", "k0"))
		}},
		{"binary key, odd headers", func(s scene) {
			r := rec(0)
			r.Key = []byte{0xff, 0}
			r.Headers = []kgo.RecordHeader{{Key: "r", Value: []byte("1")}, {Key: "b", Value: []byte{0xfe}}, {Key: "n"}, {Key: "x\xff", Value: []byte("y")}}
			s.Produced(id, r)
			r.Headers = nil
			s.deliver(dest, msg(r, "kafka_headers_json",
				`[{"name":"r","value":"1"},{"name":"b","base64":"/g=="},{"name":"n","value":null},{"name_base64":"eP8=","value":"y"}]`))
		}},
		{"dropped headers", func(s scene) {
			s.produce(1)
			s.deliver(dest, msg(rec(0), "kafka_header_h", "", "kafka_headers_dropped", "1"))
		}},
		{"key hashed", func(s scene) {
			s.produce(1)
			s.deliver(dest, msg(rec(0), "kafka_key", sha("k0"), "kafka_key_encoding", "sha256"))
		}},
		{"wider gap on the second copy", func(s scene) {
			s.produce(1)
			s.store(dest, msg(rec(0), "kafka_offset_gap", "1"))
			s.deliver(dest, msg(rec(0), "kafka_offset_gap", "2"))
		}},
		{"loss reported, with what was stored before", func(s scene) {
			s.produce(3)
			s.pass(0, 1)
			s.Trimmed(place, 0, 2)
			s.LossReported(place, 0, 2)
			s.pass(2, 3)
			s.commit(commit(3))
		}},
		{"truncated and written anew", func(s scene) {
			s.produce(3)
			s.pass(0, 3)
			s.Truncated(place, 1)
			r := rec(1)
			r.Value = []byte("new")
			s.Produced(id, r)
			s.deliver(dest, msg(r, "idempotency_key", "v1/msk/payments/AQIDAAAAAAAAAAAAAAAAAA/2/6/1"))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			tt.plot(s)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			if err := s.CheckEvents(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
