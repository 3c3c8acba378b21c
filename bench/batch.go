//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchRecords is how many records the batches of the endless topics hold.
const batchRecords = 100

// headers of every record of a benchmark that measures rate: with the other six
// they make nine attributes.
func headers() []kmsg.Header {
	return []kmsg.Header{
		{Key: "content-type", Value: []byte("application/json")},
		{Key: "trace-id", Value: []byte("0af7651916cd43dd")},
		{Key: "source", Value: []byte("orders-svc")},
	}
}

// cannedBatch is an uncompressed Kafka record batch with keys of 16 bytes and
// values of the given size, which an endless topic answers again and again.
func cannedBatch(value int) []byte {
	var records []byte
	for i := range int32(batchRecords) {
		r := kmsg.Record{
			OffsetDelta: i, Key: fmt.Appendf(nil, "customer-%07d", i),
			Value: bytes.Repeat([]byte{'a' + byte(i%26)}, value), Headers: headers(),
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // of what follows the length, here one byte
		records = r.AppendTo(records)
	}
	const written = 1_790_000_000_000 // milliseconds; any will do
	batch := (&kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: batchRecords - 1,
		FirstTimestamp: written, MaxTimestamp: written,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: batchRecords, Records: records,
	}).AppendTo(nil)
	// Length counts what follows itself, the checksum what follows it.
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch
}
