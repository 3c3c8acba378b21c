// Package message turns Kafka records into the wire bytes of Pub/Sub messages.
// It is pure: no I/O, clocks, goroutines, locks or configuration.
//
// The bytes are those that protobuf, marshalling deterministically, writes for
// the same pubsubpb.PublishRequest: Head is field 1, each message one field 2,
// attributes in ascending order of their names. Copies of a record are equal
// byte for byte, kafka_offset_gap aside. Every limit of Pub/Sub is enforced
// here, counted in bytes, so that no record can spoil a batch: what cannot be
// an attribute moves or is counted, what cannot be a message is a Refusal.
package message
