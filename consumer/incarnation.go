package consumer

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// stampPrefix begins the metadata of our commits, which say to which
// incarnation of the topic they belong. Groups commit by name (by id only from
// Kafka 4.2), so the offset of a deleted topic may land on the one created
// after it, and would skip that one's records.
const stampPrefix = "topic-id:"

// topicID is the id of one incarnation of a topic; zero is not known.
type topicID [16]byte

func (id topicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// stamped returns the incarnation that a commit belongs to, zero when whoever
// committed did not say.
func stamped(metadata string) (id topicID) {
	text, ok := strings.CutPrefix(metadata, stampPrefix)
	if raw, err := base64.RawURLEncoding.DecodeString(text); ok && err == nil && len(raw) == len(id) {
		copy(id[:], raw)
	}
	return id
}

// incarnations knows which topic ids there were. Safe for concurrent use.
type incarnations struct {
	mu       sync.Mutex                   // guards all below
	latest   map[string]topicID           // by topic
	replaced map[topicID]string           // its topic
	marked   map[string]map[int32]topicID // what the latest mark of a partition belongs to
	owed     map[string]bool              // topics that the client must begin anew
	told     map[topicID]bool
}

func newIncarnations() *incarnations {
	return &incarnations{
		latest: map[string]topicID{}, replaced: map[topicID]string{}, marked: map[string]map[int32]topicID{},
		owed: map[string]bool{}, told: map[topicID]bool{},
	}
}

// see notes that somebody told of id, and returns the latest of topic. isNew
// says that it is id, and replaced another. One that was replaced never comes
// back: a broker that tells of it is behind.
func (i *incarnations) see(topic string, id topicID) (latest topicID, isNew bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, had := i.latest[topic]
	if _, over := i.replaced[id]; over || id == before || id == (topicID{}) {
		return before, false
	}
	i.latest[topic] = id
	if had {
		i.replaced[before] = topic
		i.owed[topic] = true
	}
	return id, had
}

// of returns the latest id of topic, zero when it is not known.
func (i *incarnations) of(topic string) topicID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.latest[topic]
}

// again reports whether topic replaced another in the life of this process.
func (i *incarnations) again(topic string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, t := range i.replaced {
		if t == topic {
			return true
		}
	}
	return false
}

// first reports whether nobody has asked it of id before.
func (i *incarnations) first(id topicID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	was := i.told[id]
	i.told[id] = true
	return !was
}

// owe asks for topic to be begun anew.
func (i *incarnations) owe(topic string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.owed[topic] = true
}

// due reports whether topic is to be begun anew, and forgets it.
func (i *incarnations) due(topic string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	defer delete(i.owed, topic)
	return i.owed[topic]
}

// mark notes to which incarnation the marks of a partition belong from now on.
func (i *incarnations) mark(topic string, partition int32, id topicID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.marked[topic] == nil {
		i.marked[topic] = map[int32]topicID{}
	}
	i.marked[topic][partition] = id
}

// stamp writes into a commit which incarnations it belongs to.
func (i *incarnations) stamp(req *kmsg.OffsetCommitRequest) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, t := range req.Topics {
		for k := range t.Partitions {
			if id := i.marked[t.Topic][t.Partitions[k].Partition]; id != (topicID{}) {
				t.Partitions[k].Metadata = new(stampPrefix + id.String())
			}
		}
	}
}

// noteIncarnation takes what the metadata says of a topic and returns its
// latest id.
func (c *Consumer) noteIncarnation(topic string, id topicID) topicID {
	latest, isNew := c.incarnations.see(topic, id)
	if isNew {
		c.noteRecreated(topic, id)
	}
	return latest
}

// noteRecreated tells once of each incarnation that replaced another.
func (c *Consumer) noteRecreated(topic string, id topicID) {
	if c.incarnations.first(id) {
		c.opts.Events(fault.Event{
			Kind: fault.TopicRecreated, Topic: topic, Partition: -1,
			Reason: fmt.Sprintf("the topic was deleted and created again: it is read from its first record, under keys with the new topic id %s", id),
		})
	}
}
