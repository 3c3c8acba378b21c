package message

import "sync/atomic"

// Span is a run of consecutive polled records of one partition inside one
// batch. Kafka commits Next, never Last.
type Span struct {
	Partition   int32
	First       int64
	Last        int64
	Next        int64
	LeaderEpoch int32 // of the last record
	Records     int
}

// Batch owns the wire bytes of one PublishRequest, or of a slab that is still
// growing into one. It belongs to one goroutine at a time: the lane builds it,
// then hands it to a Publisher, which only reads it, may set Stalled, sets Slab
// to nil when the transport may still read it after the end, and puts a claim in
// the place of a message whose value it stored elsewhere.
type Batch struct {
	// Route is the Kafka topic, which names the route.
	Route string
	// Head is the encoded destination (field 1 of PublishRequest), shared by
	// all batches of the route and never written.
	Head []byte
	// Slab holds one encoded message field (field 2 of PublishRequest) after
	// another. Head followed by Slab is the request, as protobuf would write it.
	Slab []byte
	// Starts has the index in Slab at which each message field begins.
	Starts []int32
	// Spans lists what the batch covers, one entry for each partition or, where
	// a record between was settled by other means, for each run.
	Spans []Span
	// Refusal is set on a batch of one that Pub/Sub can never take: its message
	// may break limits and goes to the dead-letter topic only.
	Refusal *Refusal

	stalled atomic.Bool
}

// Len returns the number of messages.
func (b *Batch) Len() int { return len(b.Starts) }

// Size returns the bytes of the whole request.
func (b *Batch) Size() int { return len(b.Head) + len(b.Slab) }

// Part returns the encoded message fields from i up to, not including, j: a
// sub-slice of the slab, so a part of a batch costs nothing.
func (b *Batch) Part(i, j int) []byte {
	end := len(b.Slab)
	if j < len(b.Starts) {
		end = int(b.Starts[j])
	}
	return b.Slab[b.Starts[i]:end]
}

// Stalled reports whether the batch waits for something that may take long: it
// was refused at least once, or its route is held. Safe for concurrent use.
func (b *Batch) Stalled() bool { return b.stalled.Load() }

// SetStalled says whether the batch is stalled. Safe for concurrent use.
func (b *Batch) SetStalled(v bool) { b.stalled.Store(v) }
