package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/bigquery"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// cancelLimit bounds cancelling a job that nobody waits for any more.
const cancelLimit = 5 * time.Second

// labelKey marks our jobs in INFORMATION_SCHEMA.JOBS and on bills.
const labelKey = "mskbridge"

// Options say where BigQuery is and who pays.
type Options struct {
	// Project runs and pays the jobs; datasets may lie elsewhere.
	Project string
	// Location is that of the jobs, such as "EU"; "" leaves it to BigQuery, which
	// takes that of the datasets a statement names.
	Location string
	// Emulator is the host:port of a server spoken to in plaintext without
	// credentials, "" for the service.
	Emulator string
}

// Client runs SQL. Safe for concurrent use.
type Client struct {
	bq       *bigquery.Client
	location string
}

// Open finds credentials and dials nothing else.
func Open(ctx context.Context, o Options) (*Client, error) {
	if o.Project == "" {
		return nil, errors.New("opening BigQuery: no project is known that runs the jobs")
	}
	opts := []option.ClientOption{option.WithTelemetryDisabled()}
	if o.Emulator != "" {
		opts = append(opts, option.WithEndpoint("http://"+o.Emulator+"/bigquery/v2/"), option.WithoutAuthentication())
	}
	bq, err := bigquery.NewClient(ctx, o.Project, opts...)
	if err != nil {
		return nil, fmt.Errorf("opening BigQuery: %w", err)
	}
	bq.Location = o.Location
	return &Client{bq: bq, location: o.Location}, nil
}

// Close releases what Open took.
func (c *Client) Close() error { return c.bq.Close() }

// Estimate asks, for nothing, how many bytes a query would read at most.
// Pruning within partitions is not in it, so the bill may be lower.
func (c *Client) Estimate(ctx context.Context, q warehouse.Query) (int64, error) {
	job, err := c.query(q, 0)
	if err != nil {
		return 0, err
	}
	job.DryRun = true
	ran, err := job.Run(ctx)
	if err != nil {
		return 0, c.explain("estimating "+q.Name, err)
	}
	status := ran.LastStatus()
	if err := status.Err(); err != nil {
		return 0, c.explain("estimating "+q.Name, err)
	}
	if status.Statistics == nil {
		return 0, fmt.Errorf("estimating %s: the answer has no statistics", q.Name)
	}
	return status.Statistics.TotalBytesProcessed, nil
}

// Query runs one statement or script and returns its rows, and the bytes
// billed. BigQuery refuses, for nothing, what would bill more than maxBytes; 0
// is no limit but the project's. When ctx ends, the job is cancelled.
func (c *Client) Query(ctx context.Context, q warehouse.Query, maxBytes int64) (rows []warehouse.Row, billed int64, err error) {
	job, err := c.query(q, maxBytes)
	if err != nil {
		return nil, 0, err
	}
	running, err := job.Run(ctx)
	if err != nil {
		return nil, 0, c.explain("running "+q.Name, err)
	}
	if err := running.LastStatus().Err(); err != nil {
		return nil, 0, c.explain("running "+q.Name, err)
	}
	rows, err = read(ctx, running)
	if err != nil {
		if ctx.Err() != nil {
			abandon(ctx, running)
		}
		return nil, 0, c.explain("running "+q.Name, err)
	}
	status, err := running.Status(ctx)
	if err != nil {
		return nil, 0, c.explain("asking what "+q.Name+" billed", err)
	}
	if err := status.Err(); err != nil {
		return nil, 0, c.explain("running "+q.Name, err)
	}
	if status.Statistics != nil {
		if s, ok := status.Statistics.Details.(*bigquery.QueryStatistics); ok {
			billed = s.TotalBytesBilled
		}
	}
	return rows, billed, nil
}

func read(ctx context.Context, job *bigquery.Job) ([]warehouse.Row, error) {
	it, err := job.Read(ctx)
	if err != nil {
		return nil, err
	}
	var rows []warehouse.Row
	for {
		var values map[string]bigquery.Value
		err := it.Next(&values)
		if errors.Is(err, iterator.Done) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row, err := rowOf(values)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
}

// abandon keeps a job from costing what nobody will read.
func abandon(ctx context.Context, job *bigquery.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer cancel()
	_ = job.Cancel(ctx) // best effort; the cause is reported
}

// query makes a job that is not running yet. What the comments in front of a
// statement say of its parameters, not every server can tell from their use.
func (c *Client) query(q warehouse.Query, maxBytes int64) (*bigquery.Query, error) {
	job := c.bq.Query(uncommented(q.SQL))
	job.Location = c.location
	job.MaxBytesBilled = maxBytes
	job.Labels = map[string]string{labelKey: label(q.Name)}
	for name, value := range q.Params {
		v, err := param(value)
		if err != nil {
			return nil, fmt.Errorf("preparing %s: parameter @%s: %w", q.Name, name, err)
		}
		job.Parameters = append(job.Parameters, bigquery.QueryParameter{Name: name, Value: v})
	}
	return job, nil
}
