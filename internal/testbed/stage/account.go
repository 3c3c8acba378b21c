package stage

import (
	"strconv"
	"sync"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// Account compares what Kafka took with what Pub/Sub stored, record by record.
// Safe for concurrent use.
type Account struct {
	keys fakepubsub.Keys

	mu     sync.Mutex // guards all below
	topics map[string]*[partitions]fate
	in     int64
	parked int64
	stray  int64 // stored messages that no record accounts for
}

// fate is what became of each offset of a partition.
type fate []seen

type seen uint8

const (
	wasProduced seen = 1 << iota
	wasStored
	wasParked
)

// Counts is the account at one moment, in records or messages.
type Counts struct {
	Produced   int64 // records that Kafka took
	Received   int64 // messages that Pub/Sub stored on any topic, copies included
	Distinct   int64 // idempotency keys among them
	Duplicates int64 // Received beyond the first of each key
	Parked     int64 // records on the dead-letter topic, each once
	Missing    int64 // records that are neither received nor parked
	Conflicts  int64 // keys under which different messages came: must be 0
	Strays     int64 // messages that belong to no record: must be 0
}

// Proven reports whether nothing is missing and nothing is invented.
func (c Counts) Proven() bool { return c.Missing == 0 && c.Conflicts == 0 && c.Strays == 0 }

func (a *Account) begin(topics []string) {
	a.topics = make(map[string]*[partitions]fate, len(topics))
	for _, t := range topics {
		a.topics[t] = &[partitions]fate{}
	}
}

// at returns what is known of one offset, nil for a topic that is not ours.
func (a *Account) at(topic string, partition int32, offset int64) *seen {
	t := a.topics[topic]
	if t == nil || partition < 0 || partition >= partitions || offset < 0 {
		return nil
	}
	f := &t[partition]
	for int64(len(*f)) <= offset {
		*f = append(*f, 0)
	}
	return &(*f)[offset]
}

func (a *Account) produced(topic string, partition int32, offset int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*a.at(topic, partition, offset) |= wasProduced
	a.in++
}

// received takes one stored message of any topic.
func (a *Account) received(destination string, m *fakepubsub.Message) {
	partition, errP := strconv.ParseInt(string(m.Attribute("kafka_partition")), 10, 32)
	offset, errO := strconv.ParseInt(string(m.Attribute("kafka_offset")), 10, 64)
	topic := string(m.Attribute("kafka_topic"))
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.at(topic, int32(partition), offset)
	switch {
	case errP != nil || errO != nil || s == nil:
		a.stray++
	case destination == fullName(DeadLetter):
		if *s&wasParked == 0 {
			a.parked++
		}
		*s |= wasParked
	case destination == fullName(topic):
		*s |= wasStored
	default:
		a.stray++
	}
}

// Counts walks the whole account.
func (a *Account) Counts() Counts {
	messages, distinct, repeats, mixed := a.keys.Totals()
	a.mu.Lock()
	defer a.mu.Unlock()
	c := Counts{
		Produced: a.in, Received: int64(messages), Distinct: int64(distinct), Duplicates: int64(repeats),
		Parked: a.parked, Conflicts: int64(mixed), Strays: a.stray,
	}
	for _, t := range a.topics {
		for _, f := range t {
			for _, s := range f {
				switch {
				case s == wasProduced:
					c.Missing++
				case s&wasProduced == 0 && s != 0:
					c.Strays++
				}
			}
		}
	}
	return c
}
