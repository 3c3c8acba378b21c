package audit

import (
	"context"
	"time"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// Warehouse runs the generated queries: BigQuery or, in tests, another engine.
// An error says what to do about it. Calls follow one another.
type Warehouse interface {
	// Estimate returns how many bytes q would read at most, and runs nothing.
	Estimate(ctx context.Context, q warehouse.Query) (int64, error)
	// Query returns the rows of q and the bytes billed. What would bill more than
	// maxBytes is refused.
	Query(ctx context.Context, q warehouse.Query, maxBytes int64) (rows []warehouse.Row, billed int64, err error)
}

// Kafka is asked where the logs stand, and what it still has of a range. Calls
// follow one another.
type Kafka interface {
	// Extents returns where the partitions of a topic stand now. since is the time
	// that Extent.Since is about.
	Extents(ctx context.Context, topic string, since time.Time) (*Topic, error)
	// Reread reads a range of a partition as the bridge would, and publishes
	// nothing. It may end early, as soon as it has seen records; Next says where.
	Reread(ctx context.Context, topic string, partition int32, r Range) (*Reread, error)
}

// Topic is one incarnation of a topic.
type Topic struct {
	ID         string   // as in identities, "-" when brokers have none
	Partitions []Extent // by number
}

// Extent is where one partition stands. -1 is none.
type Extent struct {
	Partition int32
	Start     int64 // first offset of the log
	End       int64 // next to be written
	Since     int64 // first offset that is not before the time asked for
	Committed int64 // next to be read by the group, for this incarnation
	// Err is why nothing of it is known.
	Err error
}

// Reread is what Kafka has of a range.
type Reread struct {
	Start   int64   // offsets below were deleted
	Silent  Range   // Kafka answered with nothing there, though its log goes on: not known
	Next    int64   // offsets from here on were not looked at
	Records []Range // what the bridge would publish; all else is holes
	Parked  []Range // what it would park for what the records are
	// Oldest is the least timestamp of Records; zero when none has one.
	Oldest time.Time
}
