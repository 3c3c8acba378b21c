//go:build integration && unix

package integration

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// truth knows what was produced and what arrived, by topic, partition and
// record offset. Safe for concurrent use.
type truth struct {
	seed maphash.Seed
	// content takes the value out of what was published, nil where that is it.
	content func(data []byte) []byte

	mu    sync.Mutex // guards the rest
	ids   map[string][16]byte
	parts map[partition]*[]fate
	wrong []string // first findings, for people
	sums  sums
}

type partition struct {
	topic  string
	number int32
}

// fate is what became of one record.
type fate struct {
	value    uint64 // hash of the value produced
	data     uint64 // hash of the data received
	copy     uint64 // hash of the first copy received
	firstID  uint64 // message id of that copy, 0 when the server gives none
	produced bool
	received bool
	acked    bool // a copy was acknowledged to the bridge, or is at least stored where only that can be seen
	parked   bool
}

// sums are counted as things happen.
type sums struct {
	produced, received, repeats, parked, wrong int
}

func newTruth() *truth {
	return &truth{seed: maphash.MakeSeed(), ids: map[string][16]byte{}, parts: map[partition]*[]fate{}}
}

func (w *truth) atLocked(p partition, offset int64) *fate {
	list := w.parts[p]
	if list == nil {
		list = new([]fate)
		w.parts[p] = list
	}
	for int64(len(*list)) <= offset {
		*list = append(*list, fate{})
	}
	return &(*list)[offset]
}

func (w *truth) findLocked(format string, args ...any) {
	w.sums.wrong++
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// topicID tells under which id a topic's keys must come.
func (w *truth) topicID(topic string, id [16]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids[topic] = id
}

// producedAt notes that Kafka has a record.
func (w *truth) producedAt(topic string, number int32, offset int64, value []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.atLocked(partition{topic, number}, offset)
	f.produced, f.value = true, maphash.Bytes(w.seed, value)
	w.sums.produced++
}

// arrived notes one stored message. id 0 means that the server gives none and
// delivers nothing twice by itself.
func (w *truth) arrived(attributes map[string]string, data []byte, id uint64) {
	key, err := message.ParseID(attributes[message.AttrIdempotencyKey])
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.findLocked("a message without a legal key: %v", err)
		return
	}
	if attributes[message.AttrTopic] != key.Topic || attributes[message.AttrPartition] != strconv.Itoa(int(key.Partition)) ||
		attributes[message.AttrOffset] != strconv.FormatInt(key.Offset, 10) {
		w.findLocked("%v: its attributes name another record", key)
	}
	if want := w.ids[key.Topic]; key.TopicID != want {
		w.findLocked("%v: the topic's id is %x", key, want)
	}
	f := w.atLocked(partition{key.Topic, key.Partition}, key.Offset)
	sum := w.sum(attributes, data)
	switch {
	case !f.received:
		f.received, f.copy, f.firstID = true, sum, id
		w.sums.received++
		if w.content != nil && attributes[message.AttrParkedReason] == "" {
			data = w.content(data)
		}
		f.data = maphash.Bytes(w.seed, data)
		if attributes[message.AttrParkedReason] != "" {
			f.parked = true
			w.sums.parked++
		}
	case id != 0 && id == f.firstID: // the emulator delivered the same message again
	default:
		w.sums.repeats++
		if f.copy != sum {
			w.findLocked("%v: copies differ", key)
		}
	}
}

// sum leaves out the one attribute that may differ between copies.
func (w *truth) sum(attributes map[string]string, data []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if name != message.AttrGap {
			_, _ = h.WriteString(name + "\x00" + attributes[name] + "\x00")
		}
	}
	_, _ = h.Write(data)
	return h.Sum64()
}

// fromEmulator is a callback for emulator.Receive.
func (w *truth) fromEmulator(m *pubsubpb.PubsubMessage) {
	id, err := strconv.ParseUint(m.GetMessageId(), 10, 64)
	if err != nil {
		id = maphash.String(w.seed, m.GetMessageId())
	}
	w.arrived(m.GetAttributes(), m.GetData(), id)
	w.acknowledged(m.GetAttributes()[message.AttrIdempotencyKey])
}

// Stored implements fakepubsub.Store.
func (w *truth) Stored(_ string, ms []fakepubsub.Message) {
	for i := range ms {
		attributes := make(map[string]string, len(ms[i].Attributes))
		for _, a := range ms[i].Attributes {
			attributes[string(a.Name)] = string(a.Value)
		}
		w.arrived(attributes, ms[i].Data, 0)
	}
}

// Acknowledged implements fakepubsub.Store.
func (w *truth) Acknowledged(_ string, ms []fakepubsub.Message) {
	for i := range ms {
		w.acknowledged(string(ms[i].Key()))
	}
}

func (w *truth) acknowledged(id string) {
	key, err := message.ParseID(id)
	if err != nil {
		return // arrived has said so
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.atLocked(partition{key.Topic, key.Partition}, key.Offset).acked = true
}

// unacknowledged counts the records below next, which the group has committed,
// that were never acknowledged to the bridge: there must be none.
func (w *truth) unacknowledged(p partition, next int64) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for offset := range next {
		if f := w.atLocked(p, offset); f.produced && !f.acked {
			n++
		}
	}
	return n
}

func (w *truth) now() sums {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sums
}

// missing counts the produced records that have not arrived.
func (w *truth) missing() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.parts {
		for i := range *list {
			if f := &(*list)[i]; f.produced && !f.received {
				n++
			}
		}
	}
	return n
}

// verdict fails the test unless the keys received are exactly those produced,
// and returns the summary line.
func (w *truth) verdict(t testing.TB) string {
	t.Helper()
	missing, invented := w.missing(), 0
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, list := range w.parts {
		for i := range *list {
			switch f := &(*list)[i]; {
			case f.received && !f.produced:
				invented++
				w.findLocked("%s/%d: record %d arrived and was never produced", p.topic, p.number, i)
			case f.received && !f.parked && f.value != f.data:
				w.findLocked("%s/%d: the data of record %d is not its value", p.topic, p.number, i)
			}
		}
	}
	for _, finding := range w.wrong {
		t.Error(finding)
	}
	line := fmt.Sprintf("produced %d, distinct received %d, parked %d, duplicates %d, missing %d, invented %d, wrong %d",
		w.sums.produced, w.sums.received, w.sums.parked, w.sums.repeats, missing, invented, w.sums.wrong)
	if missing > 0 || invented > 0 || w.sums.wrong > 0 {
		t.Errorf("the keys received are not those produced: %s", line)
	}
	return line
}
