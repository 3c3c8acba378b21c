package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// Reports is what the command prints. The names of its JSON are stable; more may
// be added. Times are RFC 3339, offsets of a range are first and next after the
// last, and counts are offsets unless their name says otherwise.
type Reports struct {
	// Result is "whole", "missing", "unknown" (could not find out) or, of a dry
	// run, "estimated".
	Result string    `json:"result"`
	Routes []*Report `json:"routes"`
	// EstimatedBytes is what all queries would read at most, LimitBytes what they
	// may bill, BilledBytes what they did.
	EstimatedBytes int64 `json:"estimated_bytes"`
	LimitBytes     int64 `json:"limit_bytes"`
	BilledBytes    int64 `json:"billed_bytes"`
	DryRun         bool  `json:"dry_run"`
}

// Report is the audit of one route.
type Report struct {
	Route   string    `json:"route"`
	Result  string    `json:"result"`
	TopicID string    `json:"topic_id"` // of the incarnation that there is now; "-" when brokers have none
	Since   time.Time `json:"since"`    // records from here on are looked at
	At      time.Time `json:"at"`       // when Kafka was asked

	Partitions []*Partition `json:"partitions"`
	Totals     Counts       `json:"totals"`
	// Others are incarnations that are no more, and partitions without a commit.
	Others []Other `json:"others"`
	Log    Log     `json:"log"`
	// Findings are sentences for people: what to know, though nothing is missing.
	Findings []string `json:"findings"`
	// Problems are what could not be found out, and what to do about it.
	Problems []string `json:"problems"`
	// Mend are command lines that publish again what is missing.
	Mend []string `json:"mend"`

	EstimatedBytes int64 `json:"estimated_bytes"`
	BilledBytes    int64 `json:"billed_bytes"`
}

// Counts says where each expected offset ended: Expected is the sum of the
// others up to Unconfirmed. See the package for their meaning. Those after it
// are about deliveries.
type Counts struct {
	Expected    int64 `json:"expected"`
	Landed      int64 `json:"landed"`
	Holes       int64 `json:"holes"`
	Expired     int64 `json:"expired"`
	Parked      int64 `json:"parked"`
	Skipped     int64 `json:"skipped"`
	Unpromised  int64 `json:"unpromised"`
	Missing     int64 `json:"missing"`
	Unconfirmed int64 `json:"unconfirmed"`

	LandedBefore int64 `json:"landed_before"` // part of Landed: before the times that were read, known by the log
	LandedLate   int64 `json:"landed_late"`   // part of Landed: while the audit waited
	Unread       int64 `json:"unread"`        // part of Missing: in ranges with a record, but not read again

	Deliveries               int64 `json:"deliveries"`
	DuplicatesByPublisher    int64 `json:"duplicates_by_publisher"`
	DuplicatesBySubscription int64 `json:"duplicates_by_subscription"`
	ConflictingIdentities    int64 `json:"conflicting_identities"` // offsets with two records: an unclean election
}

// Partition is one partition of the current incarnation.
type Partition struct {
	Partition int32 `json:"partition"`
	From      int64 `json:"from"` // first offset that is expected
	To        int64 `json:"to"`   // next after the last: what the group has committed
	Counts

	LongestDelaySeconds int64      `json:"longest_delay_seconds"` // between the first and the last publish of a record
	LastPublishTime     *time.Time `json:"last_publish_time"`

	// Lists have mostListed entries at most; Cut says that one has more.
	MissingRanges     []Range `json:"missing_ranges"`
	UnconfirmedRanges []Range `json:"unconfirmed_ranges"`
	HoleRanges        []Range `json:"hole_ranges"` // those that no record declared, found by asking
	ExpiredRanges     []Range `json:"expired_ranges"`
	ParkedRanges      []Range `json:"parked_ranges"`
	SkippedRanges     []Range `json:"skipped_ranges"`
	Cut               bool    `json:"cut"`
	// Note says why nothing is expected, "" when something is.
	Note string `json:"note,omitempty"`

	first      int64  // the first that landed of what is expected, To for none
	candidates ranges // not in raw, not explained yet
	suspects   ranges // of these: Kafka has a record
	unread     ranges // of these: not read one by one
	silent     int64  // part of Unconfirmed: Kafka answered with nothing
}

// Other is a partition of which nothing is expected.
type Other struct {
	Cluster   string `json:"cluster"`
	TopicID   string `json:"topic_id"`
	Partition int64  `json:"partition"`
	Landed    int64  `json:"landed"`
	First     int64  `json:"first_offset"`
	Last      int64  `json:"last_offset"`
}

// Log is the state of the deduplicated log.
type Log struct {
	// Known is whether it could be asked.
	Known             bool       `json:"known"`
	Watermark         *time.Time `json:"watermark"` // end of what the merge has read, in publish time; null before the first run
	SweptAt           *time.Time `json:"swept_at"`
	MinutesSinceMerge int64      `json:"minutes_since_merge"`
	MinutesSinceSweep int64      `json:"minutes_since_sweep"`
	// Unmerged are records that landed before the watermark but are not in the
	// log, Repeated those that it has more than once; 1000 stands for that or more.
	Unmerged int64 `json:"unmerged"`
	Repeated int64 `json:"repeated"`
}

// mostListed bounds each list of ranges.
const mostListed = 1000

// The results.
const (
	whole     = "whole"
	missing   = "missing"
	unknown   = "unknown"
	estimated = "estimated"
)

// judge sums up. What is missing counts more than what could not be found out.
func (r *Report) judge() {
	r.Totals = Counts{}
	for _, p := range r.Partitions {
		r.Totals.add(&p.Counts)
	}
	switch {
	case r.Totals.Missing > 0:
		r.Result = missing
	case r.Totals.Unconfirmed > 0 || len(r.Problems) > 0:
		r.Result = unknown
	default:
		r.Result = whole
	}
}

func (c *Counts) add(d *Counts) {
	for _, pair := range [][2]*int64{
		{&c.Expected, &d.Expected},
		{&c.Landed, &d.Landed},
		{&c.Holes, &d.Holes},
		{&c.Expired, &d.Expired},
		{&c.Parked, &d.Parked},
		{&c.Skipped, &d.Skipped},
		{&c.Unpromised, &d.Unpromised},
		{&c.Missing, &d.Missing},
		{&c.Unconfirmed, &d.Unconfirmed},
		{&c.LandedBefore, &d.LandedBefore},
		{&c.LandedLate, &d.LandedLate},
		{&c.Unread, &d.Unread},
		{&c.Deliveries, &d.Deliveries},
		{&c.DuplicatesByPublisher, &d.DuplicatesByPublisher},
		{&c.DuplicatesBySubscription, &d.DuplicatesBySubscription},
		{&c.ConflictingIdentities, &d.ConflictingIdentities},
	} {
		*pair[0] += *pair[1]
	}
}

// judge sums up all routes.
func (r *Reports) judge() {
	r.Result = whole
	worse := []string{whole, estimated, unknown, missing}
	for _, route := range r.Routes {
		r.BilledBytes += route.BilledBytes
		if slices.Index(worse, route.Result) > slices.Index(worse, r.Result) {
			r.Result = route.Result
		}
	}
}

// Err returns nil when nothing is missing, else an error with the exit code.
func (r *Reports) Err() error {
	switch r.Result {
	case missing:
		return fault.Exit(fault.CodeFailed, errors.New("records are missing in BigQuery"))
	case unknown:
		return fault.Exit(fault.CodeUnknown, errors.New("audit could not find out everything"))
	default:
		return nil
	}
}

// JSON writes the reports.
func (r *Reports) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
