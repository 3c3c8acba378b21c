package consumer

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/message"
)

// control is the marker that ends a transaction.
func control(offset int64) *kgo.Record {
	r := sized(offset, 4)
	r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true})
	return r
}

func TestLaneSettlesControlRecordsWithoutPublishing(t *testing.T) {
	tests := []struct {
		name    string
		records []*kgo.Record
		early   int64 // marked before anything is acknowledged
		after   int64
		sent    []int64 // offsets published
	}{
		{"alone", []*kgo.Record{control(0)}, 1, 1, nil},
		{"several alone", []*kgo.Record{control(0), control(1), control(5)}, 6, 6, nil},
		{"after the records of a transaction", []*kgo.Record{sized(0, 9), sized(1, 9), control(2)}, 0, 3, []int64{0, 1}},
		{"between two", []*kgo.Record{sized(0, 9), control(1), sized(2, 9)}, 0, 3, []int64{0, 2}},
		{"before", []*kgo.Record{control(0), sized(1, 9)}, 1, 2, []int64{1}},
		{"an aborted transaction before the end", []*kgo.Record{sized(0, 9), control(7)}, 0, 8, []int64{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, OrderingNone, testSizes(), 0)
				r.poll(0, tt.records...)
				r.wantMark(0, tt.early)
				time.Sleep(time.Second)
				var sent []int64
				for _, q := range r.pub.open() {
					sent = append(sent, offsetsOf(q.records)...)
					q.ack()
				}
				r.wantMark(0, tt.after)
				if !slices.Equal(sent, tt.sent) {
					t.Errorf("published offsets %v, want %v", sent, tt.sent)
				}
			})
		})
	}
}

func TestLaneCountsHoles(t *testing.T) {
	const none = -1 // no commit, and no attribute
	tests := []struct {
		name      string
		committed int64
		logStart  int64
		records   []*kgo.Record
		want      []int64 // gap of each published record
	}{
		{"no holes", 10, 0, polled(10, 13), []int64{none, none, none}},
		{"after the committed offset", 10, 0, []*kgo.Record{sized(12, 9)}, []int64{2}},
		{"between records", 10, 0, []*kgo.Record{sized(10, 9), sized(14, 9), sized(15, 9)}, []int64{none, 3, none}},
		{"no commit: nothing is known before the first", none, 0, []*kgo.Record{sized(7, 9), sized(9, 9)}, []int64{none, 1}},
		{"committed at 0", 0, 0, []*kgo.Record{sized(3, 9)}, []int64{3}},
		{"a control record between is a hole", 0, 0, []*kgo.Record{sized(0, 9), control(1), sized(2, 9)}, []int64{none, 1}},
		{"aborted records and their marker are holes", 0, 0, []*kgo.Record{sized(0, 9), control(5), sized(6, 9)}, []int64{none, 5}},
		{"a control record first, after the committed offset", 10, 0, []*kgo.Record{control(11), sized(12, 9)}, []int64{2}},
		{"what lies below the log start is loss", 10, 50, []*kgo.Record{sized(50, 9)}, []int64{none}},
		{"loss and then holes: the holes only", 10, 50, []*kgo.Record{sized(53, 9)}, []int64{3}},
		{"log start overtakes between records", 10, 14, []*kgo.Record{sized(10, 9), sized(20, 9)}, []int64{none, 6}},
		{"log start unknown", 10, -1, []*kgo.Record{sized(12, 9)}, []int64{2}},
		{"truncation steps back: no gap", 10, 0, []*kgo.Record{sized(8, 9), sized(9, 9)}, []int64{none, none}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, OrderingNone, testSizes(), 0)
				r.do(func(l *lane) { l.placed(0, tt.committed, [16]byte{1}) })
				// One record a poll: what is expected next outlives a poll.
				for _, rec := range tt.records {
					r.fetch(kgo.FetchPartition{Partition: 0, LogStartOffset: tt.logStart, Records: []*kgo.Record{rec}})
				}
				time.Sleep(time.Second)
				var got []int64
				for _, q := range r.pub.open() {
					for _, rec := range q.records {
						got = append(got, rec.gap)
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("kafka_offset_gap %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestLaneSendsARefusedRecordAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sizes := testSizes()
		sizes.InFlight = 5
		r := newRig(t, OrderingNone, sizes, 0)
		r.poll(0, sized(0, 9), sized(1, 9), sized(2, message.MaxRequest), sized(3, message.MaxRequest), sized(4, 9))
		time.Sleep(time.Second)
		open := r.inFlight(4)
		for i, want := range []struct {
			offsets []int64
			refused bool
		}{{[]int64{0, 1}, false}, {[]int64{2}, true}, {[]int64{3}, true}, {[]int64{4}, false}} {
			q := open[i]
			if got := offsetsOf(q.records); !slices.Equal(got, want.offsets) || (q.batch.Refusal != nil) != want.refused {
				t.Errorf("batch %d covers %v with refusal %v, want %v, refused %v", i, got, q.batch.Refusal, want.offsets, want.refused)
			}
			if want.refused && q.batch.Refusal.Reason != message.TooLarge {
				t.Errorf("refused as %q", q.batch.Refusal.Reason)
			}
			q.ack()
		}
		r.wantMark(0, 5)
	})
}

func TestLaneTakesTheTopicIDOfTheFetch(t *testing.T) {
	fetched, listed := [16]byte{2}, [16]byte{1}
	tests := []struct {
		name string
		id   [16]byte
		want string
	}{
		{"the fetch response has one", fetched, "/AgAAAAAAAAAAAAAAAAAAAA/"},
		{"it has none: the one from the metadata", [16]byte{}, "/AQAAAAAAAAAAAAAAAAAAAA/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, OrderingNone, testSizes(), 0)
				rec := sized(0, 9)
				r.gate.take("orders", cost(rec))
				r.do(func(l *lane) {
					l.placed(0, -1, listed)
					l.accept(tt.id, kgo.FetchPartition{Records: []*kgo.Record{rec}})
				})
				time.Sleep(time.Second)
				if key := r.inFlight(1)[0].records[0].key; !strings.Contains(key, tt.want) {
					t.Errorf("key %s, want topic id %s in it", key, tt.want)
				}
			})
		})
	}
}

// TestLaneWritesEnvelopes: what is not JSON travels alone, marked as undecodable
// and as it was, and so does a range that is skipped; both between envelopes. The
// rig finds nothing in hand at the end, so what was charged was given back.
func TestLaneWritesEnvelopes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		route := Route{
			Topic: "orders", Destination: "projects/p/topics/orders", Format: message.EnvelopeJSON, Skip: []Skip{{Partition: 0, From: 3, To: 5}},
		}
		r := newRouteRig(t, route, testSizes(), 0)
		r.pub.script = func(*request) time.Duration { return 0 }
		records := polled(0, 6)
		for _, i := range []int{0, 2, 5} {
			records[i].Value = []byte(`{"a":1}`)
		}
		r.fetch(kgo.FetchPartition{Records: records, HighWatermark: 6})
		time.Sleep(2 * time.Second)
		var got []string
		for _, q := range r.pub.requests() {
			reason := ""
			if q.batch.Refusal != nil {
				reason = string(q.batch.Refusal.Reason)
			}
			for _, m := range q.records {
				got = append(got, fmt.Sprintf("%d %s %q", m.offset, reason, m.value[strings.LastIndexByte(m.value, ':')+1:]))
			}
		}
		slices.Sort(got)
		want := []string{
			`0  "1}\"}"`, fmt.Sprintf("1 undecodable %q", strings.Repeat("v", 16)), `2  "1}\"}"`, `3 skipped ""`, `5  "1}\"}"`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		r.wantMark(0, 6)
	})
}

// TestLaneNeverReusesASlabThatWasGivenUp: the transport may still read the slab
// of an attempt that ended without its answer. The publisher gives it up by
// setting it nil; a batch that failed is not reused either.
func TestLaneNeverReusesASlabThatWasGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type kept struct {
			slab []byte
			sum  uint32
		}
		var given []kept
		var reused int
		seen := map[*byte]bool{}
		r := newRig(t, OrderingNone, testSizes(), 0)
		for i := range int64(200) {
			r.poll(0, polled(i*1000, (i+1)*1000)...)
			q := r.inFlight(1)[0]
			slab := q.batch.Slab
			if seen[&slab[0]] {
				reused++
			}
			seen[&slab[0]] = true
			for _, k := range given {
				if &k.slab[0] == &slab[0] || crc32.ChecksumIEEE(k.slab) != k.sum {
					t.Fatalf("batch %d writes into a slab that an attempt may still send", i)
				}
			}
			var answer error
			switch i % 4 {
			case 0:
				q.batch.Slab = nil
			case 1:
				answer = errors.New("cancelled")
			}
			if i%4 < 2 {
				given = append(given, kept{slab, crc32.ChecksumIEEE(slab)})
			}
			q.answer <- answer
			r.inFlight(0)
		}
		if reused < 20 {
			t.Errorf("only %d of 100 slabs that could be reused were", reused)
		}
	})
}

func TestSlabPool(t *testing.T) {
	tests := []struct{ n, capacity int }{
		{0, 512},
		{1, 512},
		{513, 1024},
		{16 << 10, 16 << 10},
		{16<<10 + 1, 32 << 10},
		{16 << 20, 16 << 20},
		{16<<20 + 1, 16<<20 + 1},
	}
	for _, tt := range tests {
		if b := new(slabPool).get(tt.n); len(b) != 0 || cap(b) != tt.capacity {
			t.Errorf("get(%d): length %d, capacity %d, want 0 and %d", tt.n, len(b), cap(b), tt.capacity)
		}
	}
	p := new(slabPool)
	b := append(p.get(10), "abc"...)
	b = p.grow(b, 20<<10)
	if string(b) != "abc" || cap(b) < 20<<10+3 {
		t.Errorf("grown to %d bytes %q", cap(b), b)
	}
	p.put(make([]byte, 100)) // not one of ours: must not come back
	if got := p.get(50); cap(got) != 512 {
		t.Errorf("a foreign buffer of %d bytes was handed out", cap(got))
	}
}

func TestFramingOfTheLatestPoll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, OrderingNone, testSizes(), 0)
		framed := func(offset int64, id byte) *kgo.Record {
			return &kgo.Record{Offset: offset, Value: []byte{0, 0, 0, 0, id, 'v'}}
		}
		var got []string
		for _, rec := range []*kgo.Record{framed(0, 17), framed(1, 18), {Offset: 2}, sized(3, 30)} {
			r.poll(0, rec)
			if f := r.lane.stats.framing.Load(); f != nil {
				got = append(got, f.String())
			}
		}
		const schema = "Avro, Protobuf or JSON schema, registry id "
		if want := []string{schema + "17", schema + "18", schema + "18", ""}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		time.Sleep(time.Second)
		for _, q := range r.pub.open() {
			q.ack()
		}
	})
}
