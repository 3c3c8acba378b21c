// Package history records what happened at both ends of a bridge and judges it.
//
//	h := history.New(history.Options{Seed: 7, Cluster: "msk", Group: "mskbridge",
//		Routes: map[string]string{"projects/p/topics/orders": "orders"}})
//	fakepubsub.New(fakepubsub.Options{Stores: []fakepubsub.Store{h}}) // stored, acknowledged
//	kafka.Observe(h)                                                 // commits, assignments
//	h.Produced(id, record)                    // after the producer's acknowledgement
//	h.Incident("kill", "bridge-1")            // from now on repeats are allowed ...
//	h.Read(partition, record)                 // from the log, in the end
//	err := h.Check()                          // after heal and quiet
//
// What is judged, with the numbers of the design's invariants:
//
//	I1 no loss          every visible record stored with identical bytes, or parked   Check
//	I2 commit safety    all visible records below a commit acknowledged, or parked    online
//	I3 commits          never go back, except by Reset                                online
//	I4 ownership        accepted commits come from the owner in that generation       online
//	I5 nothing invented each message is one produced, visible record                  online, Check
//	I6 identity         the key is what the record's place says, and nothing else     online
//	I7 one payload      copies under one key are equal                                online
//	I8 order            per ordering key never skips forward                          online
//	I9 duplicates       at most one copy per spoiled answer and per incident          online
//
// and, with CheckEvents, that the bridge reported exactly what was parked and
// lost. A violation names the seed, the number of the event at which it was
// seen, and the last events before it. OnViolation, when set, is told at once.
//
// Commits are judged when they are sent, not when accepted: a bridge must not
// even ask for too much.
//
// A record may be stored, or passed by a commit, before its producer's
// acknowledgement was recorded; such records are judged when Produced comes.
//
// Contents are compared without header rules: value, key and, where none were
// dropped, headers. For topics in Options.Envelopes they are those of the
// envelope, with headers whole, and the attributes must agree. Memory: 40 bytes per record, before the
// slack of growing slices. Safe for concurrent use; calls must not be made
// from within OnViolation.
package history
