// Package audit finds out whether everything that the bridge has committed is in
// BigQuery. It compares what Kafka has with what landed, and doubts what it
// finds: an offset is missing only when Kafka, asked again, still has a record
// there, and neither the log nor a later look at raw knows it.
//
// It is pure but for two interfaces, Warehouse and Kafka. Each offset that is
// expected of a partition ends in exactly one column of the report:
//
//	landed       in raw, in the log, or in raw after a wait
//	holes        Kafka itself has no record there
//	expired      below the begin of Kafka's log
//	parked       a record that no request can carry: on the dead-letter topic
//	skipped      given up in the routes file
//	unpromised   before the first that landed of a route that starts at latest
//	missing      Kafka has a record, BigQuery has none
//	unconfirmed  BigQuery has none, and Kafka or BigQuery could not be asked again
package audit
