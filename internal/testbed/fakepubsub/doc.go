// Package fakepubsub is a strict Pub/Sub publisher service over gRPC, for tests
// and the demo. It refuses what the real service refuses (see limits.go), and
// it fails on demand in the ways the real one is known to fail (see Fault).
//
//	s := fakepubsub.New(fakepubsub.Options{Stores: []fakepubsub.Store{kept}})
//	err := s.CreateTopics("projects/p/topics/orders")
//	addr, err := s.Start()     // own loopback listener and goroutine ...
//	err := s.Serve(listener)   // ... or blocking, on any listener
//	defer s.Close()            // joins every goroutine
//
//	s.Script("projects/p/topics/orders", fakepubsub.Attempts(2, fakepubsub.Fault{Code: codes.Unavailable}))
//	s.Script("", fakepubsub.Always(fakepubsub.Fault{Hang: true})) // all other topics: never answer
//	s.Script("", nil)                                             // heal
//
// A request is atomic: one message that breaks a limit refuses all of it with
// InvalidArgument and nothing is stored. Violations keeps the reasons, also of
// requests that a fault answered, so that a test can assert there were none.
//
// Where the real service is lenient the fake is stricter on purpose: unknown
// fields, repeated attribute names and message ids set by the publisher are
// refused, since a correct encoder never writes them.
//
// Stored messages go to the Stores, in order per topic. Messages keeps them
// whole, Keys keeps one small entry per idempotency key.
//
// Everything is safe for concurrent use. Time is the time package's, so it is
// virtual inside a testing/synctest bubble.
package fakepubsub
