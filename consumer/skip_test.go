//go:build synctests

package consumer

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"hash/crc32"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// badBytes stand in a batch that is damaged on its way, badCodec at the
// beginning of the records of one that says it is compressed in a way that
// nobody knows. No broker would take either.
const (
	badBytes = "here a bit will flip"
	badCodec = "here nothing can be unpacked"
)

// batchHead is the size of a batch without its records.
const batchHead = 61

type damaging struct{ net.Conn }

func (c damaging) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for at := range b[:n] {
		if bytes.HasPrefix(b[at:n], []byte(badBytes)) {
			b[at] ^= 1
		}
		if bytes.HasPrefix(b[at:n], []byte(badCodec)) {
			batch := b[at-batchHead : at+len(badCodec)]
			batch[22] = 7
			binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
		}
	}
	return n, err
}

// damaged is a Kafka of which the members read damaged bytes.
func damaged(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 1, "orders", "payments")
	w.adapt = func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return damaging{conn}, nil
		}
	}
	return w
}

// writeBatch writes a batch of n records to orders/1 whose bytes are packed.
func (w *world) writeBatch(n int32, codec int16, packed []byte) {
	w.t.Helper()
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: codec, LastOffsetDelta: n - 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: n, Records: packed, FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(),
	}
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - 12)
	batch.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	topic, part := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, topic.TopicID, part.Partition, part.Records = "orders", w.kafka.TopicID("orders"), 1, batch.AppendTo(nil)
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	cl, err := w.kafka.Client()
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	resp, err := cl.Broker(0).Request(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		w.t.Fatalf("producing: code %d", code)
	}
}

// An unreadable batch at offsets 100 to 102 of orders/1.
func unreadables() map[string]func(*world) {
	return map[string]func(*world){
		"flipped bit": func(w *world) {
			cl, err := w.kafka.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(time.Second))
			if err != nil {
				w.t.Fatal(err)
			}
			defer cl.Close()
			bad := &kgo.Record{Topic: "orders", Partition: 1, Value: []byte(badBytes)}
			if err := cl.ProduceSync(w.t.Context(), bad, &kgo.Record{Topic: "orders", Partition: 1}, &kgo.Record{Topic: "orders", Partition: 1}).FirstErr(); err != nil {
				w.t.Fatal(err)
			}
		},
		"unknown compression": func(w *world) { w.writeBatch(3, 0, []byte(badCodec)) },
		"more than may be decompressed": func(w *world) {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			for range 65 {
				if _, err := z.Write(make([]byte, mib)); err != nil {
					w.t.Fatal(err)
				}
			}
			if err := z.Close(); err != nil {
				w.t.Fatal(err)
			}
			w.writeBatch(3, 1, packed.Bytes())
		},
	}
}

func TestUnreadableBatchBlocksItsPartitionAloneUntilItIsSkipped(t *testing.T) {
	for name, write := range unreadables() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := damaged(t)
				w.produce("orders", 100, 10)
				write(w)
				w.produce("orders", 100, 10)
				m := w.join(memberSizes(), OrderingNone, spread(300*time.Millisecond), "orders", "payments")
				w.within(time.Minute, "all before and beside it is read", func() bool { return w.countAcked() == 500 })
				w.within(10*time.Second, "it is named", func() bool { return m.Snapshot().Routes[0].Trouble.Reason != "" })
				for range 20 {
					time.Sleep(30 * time.Second)
					w.others()
					if s := m.Snapshot(); s.Routes[0].Trouble.Reason == "" || s.Routes[1].Trouble.Reason != "" {
						t.Fatalf("troubles: %+v", s.Routes)
					}
				}
				if got := m.of(fault.PartitionBlocked); len(got) != 1 || got[0].Partition != 1 || got[0].First != 100 {
					t.Errorf("told %+v", got)
				}
				w.produce("orders", 10, 10)
				w.within(10*time.Second, "other partitions go on", func() bool { return w.acks("orders") == 520 })
				m.stop()
				if at := w.commitOf("orders", 1).At; at != 100 {
					t.Errorf("committed %d, want to stand before the batch", at)
				}

				w.skip = []Skip{{Partition: 1, From: 100, To: 103}}
				w.mu.Lock()
				for o := int64(100); o < 103; o++ {
					delete(w.visible, place{"orders", 1, o})
				}
				w.visible[place{"orders", 1, 100}] = true // the message that stands for it
				w.mu.Unlock()
				m = w.join(memberSizes(), OrderingNone, spread(300*time.Millisecond), "orders", "payments")
				w.within(time.Minute, "all behind it is read", w.allCommitted("orders"))
				w.wantSkipped(m, 1)
				w.wantAll()
				if got := m.of(fault.PartitionBlocked); len(got) != 0 {
					t.Errorf("told %+v", got)
				}
				w.others()
			})
		})
	}
}

// wantSkipped checks how often a range was sent to the dead-letter topic.
func (w *world) wantSkipped(m *member, want int) {
	w.t.Helper()
	n := 0
	for _, q := range m.pub.requests() {
		if r := q.batch.Refusal; r != nil && r.Reason == message.Skipped {
			n++
			if s := q.batch.Spans[0]; q.batch.Len() != 1 || s.Partition != 1 || s.First != 100 || s.Next != 103 {
				w.t.Errorf("skipped %+v", s)
			}
		}
	}
	if n != want {
		w.t.Errorf("%d ranges were noted, want %d", n, want)
	}
}

// Records that could be read are left out, too; the others of their batches are not.
func TestSkipLeavesRecordsOut(t *testing.T) {
	for _, ordering := range []Ordering{OrderingNone, OrderingPartition} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, 1, "orders", "payments")
			w.skip = []Skip{{Partition: 1, From: 100, To: 103}}
			w.produce("orders", 300, 10)
			w.mu.Lock()
			delete(w.visible, place{"orders", 1, 101})
			delete(w.visible, place{"orders", 1, 102})
			w.mu.Unlock()
			m := w.join(memberSizes(), ordering, spread(300*time.Millisecond), "orders", "payments")
			w.within(time.Minute, "all is committed", w.allCommitted("orders"))
			w.wantSkipped(m, 1)
			if repeats := w.wantAll(); repeats != 0 {
				t.Errorf("%d repeats", repeats)
			}
			for _, q := range m.pub.requests() {
				for _, r := range q.records {
					if r.gap > 0 {
						t.Errorf("record %d has gap %d", r.offset, r.gap)
					}
				}
			}
			w.others()
		})
	}
}

func (w *world) acks(topic string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.acked {
		if p.topic == topic {
			n++
		}
	}
	return n
}
