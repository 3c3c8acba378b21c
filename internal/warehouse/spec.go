package warehouse

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Format is what the data of a message holds, hence what the raw table is.
type Format string

// The formats, from the route's fields format and value.
const (
	Raw           Format = "raw"            // data is the record's value, the rest is attributes
	EnvelopeBytes Format = "envelope bytes" // one JSON object with a column for each member
	EnvelopeJSON  Format = "envelope json"  // the same, the value as JSON
)

// FormatOf joins a route's fields format and value.
func FormatOf(format, value string) Format {
	switch {
	case format != "envelope":
		return Raw
	case value == "json":
		return EnvelopeJSON
	default:
		return EnvelopeBytes
	}
}

// Spec is all that the SQL of one route depends on.
type Spec struct {
	// Project holds the dataset; "" leaves it to the session that runs the SQL.
	Project string
	// Dataset holds all objects. Two clusters with a topic of one name need two.
	Dataset string
	// Topic is the Kafka topic; messages of others are rejects.
	Topic  string
	Format Format
	// RetentionDays is how long the BigQuery subscription keeps messages, 1 to
	// 31: as late as that a copy can land. The sweep looks back this far.
	RetentionDays int
	// NoCurrent leaves out the current row per record key, also of the merge:
	// for topics whose keys do not name things that change.
	NoCurrent bool
}

// DefaultRetentionDays is Pub/Sub's default for a subscription.
const DefaultRetentionDays = 7

// MostFound is the number of rows at which audit_found and audit_landed stop: an
// answer with so many is cut.
const MostFound = 100_000

// Times that the SQL depends on. Cost and freshness follow from the first two,
// correctness from the sweep alone.
const (
	lookbackMinutes   = 60      // of the frequent run
	sweepEveryMinutes = 24 * 60 // the long run, made by whichever run is due
	sweepExtraMinutes = 60      // beyond the retention, for clocks and queues
	rawExtraDays      = 23      // raw rows live this much longer than the retention
)

var (
	projectID = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]*:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	datasetID = regexp.MustCompile(`^[A-Za-z0-9_]{1,250}$`)
	topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

// CheckDataset splits "dataset" or "project.dataset", where the project of old
// organisations may have a domain ("example.com:project"), and checks both.
func CheckDataset(s string) (project, dataset string, err error) {
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		project, s = s[:i], s[i+1:]
		if !projectID.MatchString(project) {
			return "", "", fmt.Errorf("%q is not a project id, which has 6 to 30 of a-z, 0-9 and -", project)
		}
	}
	if !datasetID.MatchString(s) {
		return "", "", fmt.Errorf("%q is not a dataset: letters, digits and _", s)
	}
	return project, s, nil
}

// check refuses whatever could leave its quotes.
func (s Spec) check() error {
	switch {
	case s.Project != "" && !projectID.MatchString(s.Project):
		return fmt.Errorf("%q is not a project id, which has 6 to 30 of a-z, 0-9 and -", s.Project)
	case !datasetID.MatchString(s.Dataset):
		return fmt.Errorf("%q is not a dataset: letters, digits and _", s.Dataset)
	case !topicName.MatchString(s.Topic):
		return fmt.Errorf("%q is not a Kafka topic name", s.Topic)
	case s.Format != Raw && s.Format != EnvelopeBytes && s.Format != EnvelopeJSON:
		return fmt.Errorf("%q is not a format", s.Format)
	case s.RetentionDays < 1 || s.RetentionDays > 31:
		return errors.New("the retention of a subscription is 1 to 31 days")
	}
	return nil
}
