package message

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ID names one physical Kafka record for ever, also across topic recreation
// (TopicID) and log truncation (LeaderEpoch). Its text form is the idempotency
// key:
//
//	v1/<cluster>/<topic>/<topic id>/<partition>/<leader epoch>/<offset>
//
// The form is stable and the mapping injective: no part can contain a slash.
type ID struct {
	Cluster     string   // configured alias, [a-z0-9-]{1,63}
	Topic       string   // Kafka topic
	TopicID     [16]byte // zero when the broker has none, written "-"
	Partition   int32
	LeaderEpoch int32 // -1 when unknown
	Offset      int64
}

const idVersion = "v1/"

// String returns the text form. For an ID whose parts are illegal it is
// something that ParseID refuses or reads as another ID.
func (id ID) String() string {
	b := appendIDPrefix(nil, id.Cluster, id.Topic, id.TopicID, id.Partition)
	b = appendIDEpoch(b, id.LeaderEpoch)
	return string(strconv.AppendInt(b, id.Offset, 10))
}

// AppendText implements [encoding.TextAppender]. It returns an error for an ID
// whose parts are illegal.
func (id ID) AppendText(b []byte) ([]byte, error) {
	if err := id.check(); err != nil {
		return b, err
	}
	return append(b, id.String()...), nil
}

// ParseID reads the text form. It accepts exactly what AppendText writes.
func ParseID(s string) (ID, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 7 || parts[0]+"/" != idVersion {
		return ID{}, errors.New("parsing idempotency key: want v1/ and six parts")
	}
	id := ID{Cluster: parts[1], Topic: parts[2]}
	if parts[3] != "-" {
		raw, err := base64.RawURLEncoding.DecodeString(parts[3])
		if err != nil || len(raw) != len(id.TopicID) {
			return ID{}, errors.New("parsing idempotency key: topic id is not 16 bytes in base64url")
		}
		copy(id.TopicID[:], raw)
	}
	partition, err1 := strconv.ParseInt(parts[4], 10, 32)
	epoch, err2 := strconv.ParseInt(parts[5], 10, 32)
	offset, err3 := strconv.ParseInt(parts[6], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return ID{}, fmt.Errorf("parsing idempotency key: %w", err)
	}
	id.Partition, id.LeaderEpoch, id.Offset = int32(partition), int32(epoch), offset
	if err := id.check(); err != nil {
		return ID{}, fmt.Errorf("parsing idempotency key: %w", err)
	}
	// Leading zeros, signs and stray bits of base64 would be second spellings.
	if id.String() != s {
		return ID{}, errors.New("parsing idempotency key: not in canonical form")
	}
	return id, nil
}

// check reports whether the text form of id reads back as id.
func (id ID) check() error {
	switch {
	case !madeOf(id.Cluster, 63, "-", false):
		return errors.New("cluster alias is not 1 to 63 of a-z, 0-9 and -")
	case !madeOf(id.Topic, 249, "._-", true):
		return errors.New("topic is not a legal Kafka name")
	case id.Partition < 0 || id.LeaderEpoch < -1 || id.Offset < 0:
		return errors.New("negative partition, leader epoch or record offset")
	}
	return nil
}

// madeOf reports whether s has 1 to limit characters, all of a-z, 0-9, other
// and, with upper, A-Z.
func madeOf(s string, limit int, other string, upper bool) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !(upper && c >= 'A' && c <= 'Z') && strings.IndexByte(other, c) < 0 {
			return false
		}
	}
	return len(s) > 0 && len(s) <= limit
}

// appendIDPrefix appends the parts that repeat in each record of a partition,
// with the slash behind them.
func appendIDPrefix(b []byte, cluster, topic string, topicID [16]byte, partition int32) []byte {
	b = append(b, idVersion...)
	b = append(append(b, cluster...), '/')
	b = append(append(b, topic...), '/')
	if topicID == ([16]byte{}) {
		b = append(b, '-')
	} else {
		b = base64.RawURLEncoding.AppendEncode(b, topicID[:])
	}
	return append(strconv.AppendInt(append(b, '/'), int64(partition), 10), '/')
}

// appendIDEpoch appends the part that repeats until the next election.
func appendIDEpoch(b []byte, epoch int32) []byte {
	return append(strconv.AppendInt(b, int64(epoch), 10), '/')
}
