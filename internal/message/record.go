package message

// Record is one Kafka record as the encoder sees it. Its slices are only read:
// Value until AppendTo, everything else during Measure alone.
type Record struct {
	Key     []byte // nil: the record has no key; empty: it has an empty one
	Value   []byte // nil: tombstone
	Headers []Header
	// TimestampMs is epoch milliseconds as Kafka stores them, -1 when there is none.
	TimestampMs int64
	Offset      int64
	// LeaderEpoch is the epoch under which the batch was written, -1 when unknown.
	LeaderEpoch int32
	// Gap is the number of holes just before this record.
	Gap int64
}

// Header is one record header. A nil Value is Kafka's null.
type Header struct {
	Name  string
	Value []byte
}
