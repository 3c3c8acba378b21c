// Package load makes records as users of such a bridge have them: JSON change
// events, Avro behind a schema registry's header, tombstones, null and binary
// keys, repeated, binary and hostile headers, empty values, a few of several MB
// and, on request, some that Pub/Sub can never take.
//
//	g := load.New(load.Options{Seed: 7, Topics: load.Topics(24), Partitions: 3, Records: 100_000, Large: 5, Unfit: 1})
//	for i := range g.Len() {
//		producer.Send(ctx, g.Record(i), done)
//	}
//
// A record depends on the options and its index alone, so any part of a load
// can be made again, on any number of goroutines. Topics that get large or
// unfit records need max.message.bytes of at least MaxRecord.
package load
