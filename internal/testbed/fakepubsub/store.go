package fakepubsub

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
)

// Store receives what the server stores. The server calls Stored with the
// topic locked, so calls for one topic come one at a time and in order; calls
// for different topics, and of Acknowledged, come at once. A store must not
// block and must not keep the messages.
type Store interface {
	// Stored: ms, of one request, are now part of topic (full name).
	Stored(topic string, ms []Message)
	// Acknowledged: the ids of ms are about to be answered. It follows Stored,
	// and is missing when a fault spoils the answer.
	Acknowledged(topic string, ms []Message)
}

// OnStored is a Store that calls itself for each stored message.
type OnStored func(topic string, m *Message)

// Stored calls f for each message.
func (f OnStored) Stored(topic string, ms []Message) {
	for i := range ms {
		f(topic, &ms[i])
	}
}

// Acknowledged does nothing.
func (OnStored) Acknowledged(string, []Message) {}

// Kept is a copy of one stored message.
type Kept struct {
	Data        []byte
	Attributes  map[string]string
	OrderingKey string
}

// Messages is a Store that keeps copies of everything. The zero value is ready.
type Messages struct {
	mu     sync.Mutex // guards topics
	topics map[string][]Kept
}

// Stored keeps copies of ms.
func (s *Messages) Stored(topic string, ms []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics == nil {
		s.topics = map[string][]Kept{}
	}
	for i := range ms {
		k := Kept{Data: bytes.Clone(ms[i].Data), OrderingKey: string(ms[i].OrderingKey)}
		k.Attributes = make(map[string]string, len(ms[i].Attributes))
		for _, a := range ms[i].Attributes {
			k.Attributes[string(a.Name)] = string(a.Value)
		}
		s.topics[topic] = append(s.topics[topic], k)
	}
}

// Acknowledged does nothing.
func (*Messages) Acknowledged(string, []Message) {}

// Of returns what topic holds, in the order of storing.
func (s *Messages) Of(topic string) []Kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.topics[topic])
}

// Sum is the first 16 bytes of a SHA-256.
type Sum [16]byte

// Entry is what Keys knows of one idempotency key.
type Entry struct {
	Digest Sum // of data, attributes and ordering key
	Count  uint32
	Mixed  bool // copies with different digests came under this key
}

// Keys is a Store that keeps one entry of about 60 bytes per topic and
// idempotency key. The zero value is ready.
type Keys struct {
	mu     sync.Mutex // guards topics
	topics map[string]map[Sum]Entry
	digest digester
}

// Stored counts ms. A message without key counts under the empty one.
func (s *Keys) Stored(topic string, ms []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[topic]
	if t == nil {
		if s.topics == nil {
			s.topics = map[string]map[Sum]Entry{}
		}
		t = map[Sum]Entry{}
		s.topics[topic] = t
	}
	for i := range ms {
		key, d := KeySum(ms[i].Key()), s.digest.sum(&ms[i])
		e, known := t[key]
		e.Mixed = e.Mixed || known && e.Digest != d
		e.Digest = d
		e.Count++
		t[key] = e
	}
}

// Acknowledged does nothing.
func (*Keys) Acknowledged(string, []Message) {}

// Of returns a copy of the entries of topic by KeySum of the key.
func (s *Keys) Of(topic string) map[Sum]Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.topics[topic])
}

// Totals counts over all topics: messages, distinct keys, messages beyond the
// first of their key, and keys whose copies differ.
func (s *Keys) Totals() (messages, distinct, repeats, mixed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.topics {
		distinct += len(t)
		for _, e := range t {
			messages += int(e.Count)
			if e.Mixed {
				mixed++
			}
		}
	}
	return messages, distinct, messages - distinct, mixed
}

// KeySum is the name under which Keys counts an idempotency key.
func KeySum(key []byte) Sum {
	h := sha256.Sum256(key)
	return Sum(h[:16])
}

// digester digests messages, reusing its buffers. Not safe for concurrent use.
type digester struct {
	attributes []Attribute
	head       []byte
}

// sum is independent of the order of attributes, which protobuf does not fix,
// and leaves out kafka_offset_gap, the one attribute that compaction may
// change between two reads of a record.
func (d *digester) sum(m *Message) Sum {
	d.attributes = append(d.attributes[:0], m.Attributes...)
	slices.SortFunc(d.attributes, func(a, b Attribute) int { return bytes.Compare(a.Name, b.Name) })
	d.head = d.head[:0]
	for _, a := range d.attributes {
		if string(a.Name) != "kafka_offset_gap" {
			d.add(a.Name)
			d.add(a.Value)
		}
	}
	d.add(m.OrderingKey)
	data := sha256.Sum256(m.Data)
	d.head = append(d.head, data[:]...)
	h := sha256.Sum256(d.head)
	return Sum(h[:16])
}

func (d *digester) add(b []byte) {
	d.head = append(d.head, byte(len(b)>>24), byte(len(b)>>16), byte(len(b)>>8), byte(len(b)))
	d.head = append(d.head, b...)
}
