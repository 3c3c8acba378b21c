package message

// Names of the columns that hold a record in the warehouse, besides those that
// are attributes of the same name (AttrIdempotencyKey, AttrTopic, AttrPartition,
// AttrOffset, AttrKey, AttrGap). They are also the members of the JSON object of
// format envelope, and a contract like the attributes.
const (
	ColCluster     = "kafka_cluster"      // STRING, the alias
	ColTopicID     = "kafka_topic_id"     // STRING, base64url, "-" for none
	ColLeaderEpoch = "kafka_leader_epoch" // INT64, -1 for unknown
	ColTimestamp   = "kafka_timestamp"    // TIMESTAMP in microseconds, null for none
	ColDate        = "kafka_date"         // DATE, see DateFloor
	ColTombstone   = "is_tombstone"       // BOOL
	ColHeaders     = "headers"            // array of name and value, or name and base64
	ColValue       = "value"              // BYTES or JSON, null for a tombstone
)

// The date of a record is the UTC day of its timestamp. A record without one,
// or with one outside [DateFirst, DateNext), has the date DateFloor: 9,862 days
// and this one stay below the 10,000 partitions of a table. Copies of a record
// share its date for ever, so these bounds never change.
const (
	DateFloor = "1970-01-01"
	DateFirst = "2011-01-01" // the year of Kafka's first release
	DateNext  = "2038-01-01"
)
