// Package integration holds the tests that run the built binary as a child
// process against real parts: Apache Kafka 3.9 and 4.x, and the Pub/Sub
// emulator. Where a test must know exactly what was acknowledged, or must
// break the destination, the strict fake of internal/testbed/fakepubsub takes
// the emulator's place, over TCP. They need the build tag integration.
//
// Environment of the tests:
//
//	MSKBRIDGE_REQUIRE_PARTS=1  a part that cannot be had fails the test; else it skips loudly
//	KAFKA_BROKERS              a running cluster for the tests that need not stop it
//	PUBSUB_EMULATOR_HOST       a running emulator
//	MSKBRIDGE_RECORDS          records per load, 30000
//	MSKBRIDGE_TOPICS           topics per load, 8, of 3 partitions each
//	MSKBRIDGE_RATE             records per second of a load, 4000
//	MSKBRIDGE_BACKLOG_MB       backlog of the memory test, 200
//	MSKBRIDGE_SEED             of the load and of the random moments; printed when not given
//	MSKBRIDGE_BINARY           a bridge to test instead of building one
//	MSKBRIDGE_RACE=1           builds the binary with the race detector
package integration
