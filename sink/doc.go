// Package sink publishes batches to Pub/Sub: it retries what can be retried,
// for ever and with the same bytes, holds a route that needs an operator, and
// isolates and parks records that Pub/Sub will never take.
//
// Publish returns when every message of a batch is acknowledged, by the
// destination or by the dead-letter topic, and only an acknowledgement settles
// a message: an answer that is lost or makes no sense counts as not delivered.
// The messages of one batch are published in order; a part of a batch is a
// sub-slice of its slab. One route's trouble never touches another's.
//
// The generated client of cloud.google.com/go/pubsub/v2 does the talking, one
// RPC per attempt; its own retry is off. A codec per call hands it the slab as
// it is, see codec.go for who may read it for how long.
package sink
