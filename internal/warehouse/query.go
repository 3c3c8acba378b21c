package warehouse

import "github.com/mskbridge/mskbridge/internal/message"

// Columns that name a partition in the answers of the audits.
const (
	ColumnCluster   = message.ColCluster
	ColumnTopicID   = message.ColTopicID
	ColumnPartition = message.AttrPartition
)

// Query is one statement to run, with named parameters.
type Query struct {
	Name string // for people, such as "audit_partitions"
	SQL  string
	// Params hold a value for each @name of the SQL: a string, bool, int64 or
	// float64, a time.Time for TIMESTAMP, a Date, or an []Extent for an array of
	// struct.
	Params map[string]any
}

// Date is a DATE, as in "2026-11-30".
type Date string

// Extent is a range of offsets of one partition of one incarnation of a topic:
// an element of the parameters @expected and @ranges. The tags name its columns
// for BigQuery's client.
type Extent struct {
	Cluster   string `bigquery:"kafka_cluster"`
	TopicID   string `bigquery:"kafka_topic_id"` // as in the identity: "-" for none
	Partition int64  `bigquery:"kafka_partition"`
	From      int64  `bigquery:"from_offset"` // first
	To        int64  `bigquery:"to_offset"`   // next after the last
}

// Row is one row of a result, by column: nil, string, bool, int64, float64,
// []byte, time.Time, Date, Row for STRUCT, and []any for ARRAY.
type Row map[string]any
