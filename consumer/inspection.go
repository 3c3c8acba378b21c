package consumer

import (
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// Inspection is what Kafka said about everything that a Consumer needs.
type Inspection struct {
	Brokers []*BrokerInspection // as configured, then as advertised
	// Err is why no broker answered; nothing below is known then.
	Err    error
	Cause  Cause
	Topics []*TopicInspection // as configured
	Group  GroupInspection
	// SettingsErr and OffsetsErr are why no topic's settings or offsets are known.
	SettingsErr, OffsetsErr error
}

// BrokerInspection is one address, configured or advertised.
type BrokerInspection struct {
	Address string
	Node    int32 // -1: no broker advertises this address
	// Dial is how long connecting took, TLS included.
	Dial    time.Duration
	DialErr error
	// CertEnds is when the first certificate of its chain ends, zero without TLS.
	CertEnds time.Time
	// AskErr is why an advertised broker did not answer once connected.
	AskErr   error
	AskCause Cause
	// TopicIDs and FetchIDs are whether it knows topic ids (from Kafka 2.8), and
	// sends them with each fetch (from 3.1). Without an answer both are false.
	TopicIDs, FetchIDs bool
}

// TopicInspection is the topic of one route.
type TopicInspection struct {
	Topic string
	// Err is why nothing below is known.
	Err        error
	Cause      Cause
	ID         [16]byte // zero when brokers have none
	MayRead    fault.Answer
	Partitions []PartitionInspection // by number
	// MaxMessageBytes bounds a batch of records, hence a record; 0 is not known.
	MaxMessageBytes int64
	// Retention is how long records stay; 0 is not known or for ever.
	Retention time.Duration
	// Old is whether the next record to read of a partition with a commit has,
	// by its timestamp, outlived half of Retention.
	Old fault.Answer
	// Framing is what a record of it begins with; zero when none was to be had.
	Framing message.Framing
}

// PartitionInspection is one partition: the first offset of its log, the next
// one to be written, the next one to be read by the group, and the first that
// is not before the time asked for. -1 is not known; for Committed also that
// there is none for this incarnation of the topic.
type PartitionInspection struct {
	Partition                    int32
	Err                          error // it has no leader, for example
	Start, End, Committed, Since int64
}

// GroupInspection is the consumer group.
type GroupInspection struct {
	// Err is why nothing below is known.
	Err      error
	Cause    Cause
	State    string // Empty, Dead (there is none yet), Stable, ...
	Protocol string // "consumer", "" while it never had members
	MayRead  fault.Answer
	Members  int
	Foreign  []string // members that are no bridges, "client id at host"
}
