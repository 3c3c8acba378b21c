package consumer

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// What is open of the part that was cut off moves nothing past the cut; what is
// open below it still holds the position back.
func TestTruncationMovesThePositionToTheCut(t *testing.T) {
	tests := []struct {
		name  string
		order []int // acknowledgements, by request
		marks []int64
	}{
		{"in order", []int{0, 1, 2}, []int64{1000, 1500, 1520}},
		{"the new one first", []int{2, 0, 1}, []int64{0, 1000, 1520}},
		{"the one across the cut last", []int{0, 2, 1}, []int64{1000, 1000, 1520}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				sizes := testSizes()
				sizes.InFlight = 5
				r := newRig(t, OrderingNone, sizes, 0)
				var told []fault.Event
				r.do(func(l *lane) { l.tell = func(e fault.Event) { told = append(told, e) } })
				r.poll(0, polled(0, 2000)...)
				r.inFlight(2)
				r.do(func(l *lane) { l.truncated(0, &kgo.ErrDataLoss{Topic: "orders", ConsumedTo: 2000, ResetTo: 1500}) })
				again := polled(1500, 1520)
				for _, rec := range again {
					rec.LeaderEpoch = 6
				}
				r.poll(0, again...)
				r.do(func(l *lane) { l.sizes.Linger = 0; l.shared.seal() })
				open := r.inFlight(3)
				if k := open[2].records[0].key; k != "v1/test/orders/AQAAAAAAAAAAAAAAAAAAAA/0/6/1500" {
					// The requests are sorted by partition and first offset.
					t.Errorf("key %s", k)
				}
				for i, k := range tt.order {
					open[k].ack()
					r.wantMark(0, tt.marks[i])
				}
				if len(told) != 1 || told[0].Kind != fault.Truncated || told[0].First != 1500 || told[0].Next != 2000 {
					t.Errorf("told %+v", told)
				}
			})
		})
	}
}

func TestEmptiedLogIsALossAtTheSecondLook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		var told []fault.Event
		r.do(func(l *lane) { l.tell = func(e fault.Event) { told = append(told, e) } })
		r.poll(0, polled(0, 10)...)
		r.do(func(l *lane) { l.emptied(0, 10) })
		r.do(func(l *lane) { l.emptied(0, 10) })
		r.do(func(l *lane) { l.emptied(0, 30) })
		if len(told) != 0 {
			t.Fatalf("told %+v", told)
		}
		r.poll(0, polled(10, 20)...) // was on its way
		r.do(func(l *lane) { l.emptied(0, 30) })
		r.do(func(l *lane) { l.emptied(0, 30) })
		r.do(func(l *lane) { l.emptied(0, 30) })
		if len(told) != 1 || told[0].First != 20 || told[0].Next != 30 {
			t.Errorf("told %+v, want [20, 30) once", told)
		}
		r.pub.script = answerAfter(0)
		r.do(func(l *lane) { l.shared.seal() })
		for _, q := range r.pub.open() {
			q.ack()
		}
		r.wantMark(0, 30)
	})
}
