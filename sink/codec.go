package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// call is the codec of one RPC: what it marshals is head and part, bytes that
// are already a PublishRequest, and what it unmarshals is only counted.
type call struct {
	head  []byte // destination, never written by anyone
	part  []byte // message fields
	lease *lease // counts who may read part; nil: part is nobody's to reuse
	ids   int    // message ids in the answer
	read  mem.Reader
}

// Name makes the content type that of protobuf, which the bytes are.
func (*call) Name() string { return "proto" }

// Marshal hands out the bytes as they are, whatever the message. gRPC copies
// them into its write buffer frame by frame; no buffer pool takes part, so
// nothing of the size of a request is cleared or copied.
func (c *call) Marshal(any) (mem.BufferSlice, error) {
	head := mem.SliceBuffer(c.head)
	switch {
	case c.lease == nil:
		return mem.BufferSlice{head, mem.SliceBuffer(c.part)}, nil
	case mem.IsBelowBufferPoolingThreshold(cap(c.part)): // 1 KiB; gRPC would not count it
		return mem.BufferSlice{head, mem.SliceBuffer(slices.Clone(c.part))}, nil
	}
	c.lease.readers.Add(1)
	return mem.BufferSlice{head, mem.NewBuffer(&c.part, c.lease)}, nil
}

var errAnswer = errors.New("malformed answer")

// Unmarshal counts the message ids of a PublishResponse, whatever the message,
// without allocating. data ends with the call.
func (c *call) Unmarshal(data mem.BufferSlice, _ any) error {
	c.read.Reset(data)
	defer c.read.Close()
	c.ids = 0
	for c.read.Remaining() > 0 {
		tag, err := binary.ReadUvarint(&c.read)
		if err != nil {
			return errAnswer
		}
		number, kind := protowire.DecodeTag(tag)
		var skip uint64
		switch kind {
		case protowire.VarintType:
			_, err = binary.ReadUvarint(&c.read)
		case protowire.BytesType:
			skip, err = binary.ReadUvarint(&c.read)
		case protowire.Fixed64Type:
			skip = 8
		case protowire.Fixed32Type:
			skip = 4
		default:
			return errAnswer
		}
		if err != nil || skip > uint64(c.read.Remaining()) {
			return errAnswer
		}
		if _, err := c.read.Discard(int(skip)); err != nil {
			return errAnswer
		}
		if number == 1 && kind == protowire.BytesType {
			c.ids++
		}
	}
	return nil
}

// idsError is an answer whose ids do not match the messages. Which of them
// Pub/Sub stored cannot be known, so nothing counts as delivered.
type idsError struct{ want, got int }

func (e *idsError) Error() string {
	return fmt.Sprintf("answer has %d message ids for %d messages", e.got, e.want)
}

// lease counts the RPCs whose transport may still read the slab of one batch.
//
// An RPC that has returned does not mean that its bytes are no longer read.
// grpc-go queues them for the connection's writer goroutine (controlbuf.go),
// and returns early when the context ends or the server answers before it read
// everything. The writer may be stuck in a write of the socket then, with the
// frame and the stream's clean-up in its queue; as soon as the socket takes
// bytes again it can send the last frame of the cancelled request before it
// comes to the clean-up. Had the slab been filled with other records meanwhile,
// Pub/Sub would store a mixture of both.
//
// gRPC counts references: SendMsg, the replay buffer and the writer each hold
// one, and free it when done. The buffer that Marshal makes calls Put when the
// last is gone, after the last read. One path frees nothing: when the writer
// dies with its connection, what it had begun stays counted. So a lease may
// never end, and nobody waits for it long: the slab is left to the collector.
type lease struct {
	readers atomic.Int32
	// idle gets one value, from Put, when readers falls to 0. Read by ended.
	idle chan struct{}
}

// leaseGrace is how long ended waits: a response can overtake the few
// instructions in which the writer lets go of the request.
const leaseGrace = 5 * time.Millisecond

// Get is there because a pool has one; gRPC only puts into this one.
func (*lease) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// Put is called by gRPC after the last read of one RPC's bytes.
func (l *lease) Put(*[]byte) {
	if l.readers.Add(-1) == 0 {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
}

// ended reports whether no transport reads the slab any more. The caller starts
// no further RPC. It waits leaseGrace at most.
func (l *lease) ended() bool {
	if l.readers.Load() == 0 {
		return true
	}
	t := time.NewTimer(leaseGrace)
	defer t.Stop()
	for l.readers.Load() != 0 {
		select {
		case <-l.idle:
		case <-t.C:
			return l.readers.Load() == 0
		}
	}
	return true
}
