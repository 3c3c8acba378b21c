package warehouse

import (
	"fmt"
	"strings"

	"github.com/mskbridge/mskbridge/internal/message"
)

// column is one column of a table that we create.
type column struct {
	Name, Type string
	required   bool
	meaning    string
}

// identity are the columns that name a record, in the order of the envelope.
func identity() []column {
	return []column{
		{message.AttrIdempotencyKey, "STRING", true, "Identity of the Kafka record, for ever"},
		{message.ColCluster, "STRING", true, "Alias of the Kafka cluster"},
		{message.AttrTopic, "STRING", true, "Kafka topic"},
		{message.ColTopicID, "STRING", true, "Incarnation of the topic: a recreated topic has another; - for none"},
		{message.AttrPartition, "INT64", true, "Kafka partition"},
		{message.AttrOffset, "INT64", true, "Offset of the record in its partition"},
		{message.ColLeaderEpoch, "INT64", true, "Leader epoch under which it was appended, -1 for unknown"},
		{message.ColTimestamp, "TIMESTAMP", false, "Record timestamp as Kafka stored it; NULL when absent or out of range"},
		{message.ColDate, "DATE", true, "UTC day of the timestamp; " + message.DateFloor + " when that is missing or implausible"},
		{message.AttrKey, "BYTES", false, "Record key, or its SHA-256 where it was too long to carry; NULL when the record has none"},
		{message.ColTombstone, "BOOL", true, "TRUE when the value is null"},
	}
}

// payload are the columns of a record that differ between formats.
func payload(f Format) []column {
	switch f {
	case EnvelopeBytes, EnvelopeJSON:
		value := column{message.ColValue, "BYTES", false, "Record value, byte for byte; NULL for a tombstone"}
		if f == EnvelopeJSON {
			value = column{message.ColValue, "JSON", false, "Record value; NULL for a tombstone"}
		}
		return []column{
			{message.ColHeaders, "ARRAY<STRUCT<name STRING, name_base64 BYTES, value STRING, base64 BYTES>>", false, "Record headers in order; what is not text is in the base64 member"},
			value,
		}
	default:
		return []column{
			{"data", "BYTES", false, "Record value, byte for byte; NULL for a tombstone"},
			{"attributes", "JSON", false, "Message attributes: headers are " + message.AttrHeaderPrefix + "NAME"},
		}
	}
}

// delivered are the columns that Pub/Sub fills for each delivery.
func delivered() []column {
	return []column{
		{"subscription_name", "STRING", false, "Subscription that wrote the row"},
		{"message_id", "STRING", false, "Pub/Sub message id: one for each publish that succeeded"},
		{"publish_time", "TIMESTAMP", false, "When Pub/Sub accepted this copy"},
		{"ordering_key", "STRING", false, "Ordering key, where Pub/Sub writes it here; else it is in attributes"},
	}
}

// rawColumns are those of the table that the subscription writes. All are
// nullable: a message that does not fit must land among the rejects, not stop
// the subscription.
func rawColumns(f Format) []column {
	attributes := column{"attributes", "JSON", false, "Message attributes; every member is a JSON string"}
	if f == Raw {
		data := column{"data", "BYTES", false, "Record value, byte for byte; empty for a tombstone"}
		return append(delivered(), data, attributes)
	}
	gap := column{message.AttrGap, "INT64", false, "Holes just before the record: offsets that Kafka itself does not have"}
	out := append(identity(), gap)
	out = append(out, payload(f)...)
	out = append(append(out, delivered()...), attributes)
	for i := range out {
		out[i].required = false
	}
	return out
}

// logColumns are those of the log, without the time of the merge.
func logColumns(f Format) []column {
	copies := []column{
		{"message_id", "STRING", false, "Message id of the copy that was kept"},
		{"publish_time", "TIMESTAMP", false, "Publish time of the copy that was kept"},
	}
	return append(append(identity(), payload(f)...), copies...)
}

// currentColumns are what the current row of a key takes from the log, the
// key and its incarnation first.
func currentColumns(f Format) []column {
	var out []column
	for _, name := range []string{
		message.AttrKey, message.ColCluster, message.ColTopicID, message.AttrPartition,
		message.ColLeaderEpoch, message.AttrOffset, message.ColTimestamp,
	} {
		for _, c := range identity() {
			if c.Name == name {
				c.required = name != message.ColTimestamp
				out = append(out, c)
			}
		}
	}
	return append(out, payload(f)...)
}

// define lists columns as CREATE TABLE wants them, more of the same to follow.
func define(columns []column) string {
	var b strings.Builder
	for _, c := range columns {
		kind := c.Type
		if c.required {
			kind += " NOT NULL"
		}
		fmt.Fprintf(&b, "  %s %s OPTIONS (description = %s),\n", c.Name, kind, literal(c.meaning))
	}
	return strings.TrimSuffix(b.String(), ",\n")
}

// list names columns behind an alias such as "s.", or "" for none, four on a
// line.
func list(indent int, alias string, columns []column) string {
	var b strings.Builder
	for i, c := range columns {
		switch {
		case i == 0:
		case i%4 == 0:
			b.WriteString(",\n" + strings.Repeat(" ", indent))
		default:
			b.WriteString(", ")
		}
		b.WriteString(alias + c.Name)
	}
	return b.String()
}

// literal quotes a string for SQL.
func literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}
