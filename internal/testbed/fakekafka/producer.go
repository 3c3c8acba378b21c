package fakekafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxRecord lets a producer send what brokers with raised limits take.
const maxRecord = 64 << 20

// Producer writes records to the partition each one names.
type Producer struct{ client *kgo.Client }

// Producer returns a producer; the caller closes it. A record beyond 1 MB needs
// max.message.bytes raised on its topic or message.max.bytes on the cluster.
func (c *Cluster) Producer(opts ...kgo.Opt) (*Producer, error) {
	cl, err := c.Client(append(producerOpts(), opts...)...)
	if err != nil {
		return nil, err
	}
	return &Producer{cl}, nil
}

func producerOpts() []kgo.Opt {
	return []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(maxRecord),
		kgo.BrokerMaxWriteBytes(maxRecord * 2),
		kgo.ClientID("producer"),
	}
}

// Produce writes the records, fills in their offsets and returns when all are
// acknowledged.
func (p *Producer) Produce(ctx context.Context, records ...*kgo.Record) error {
	if err := p.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("producing: %w", err)
	}
	return nil
}

// Send writes a record in the background and calls done, from one goroutine,
// when it was acknowledged. It blocks while too much is buffered.
func (p *Producer) Send(ctx context.Context, r *kgo.Record, done func(*kgo.Record, error)) {
	p.client.Produce(ctx, r, done)
}

// Flush waits until everything sent was acknowledged or has failed.
func (p *Producer) Flush(ctx context.Context) error { return p.client.Flush(ctx) }

// Refresh looks for new partitions now, not when the metadata is old.
func (p *Producer) Refresh() { p.client.ForceMetadataRefresh() }

// Close drops what is not yet sent.
func (p *Producer) Close() { p.client.Close() }

// Transaction writes the records in one transaction, commits or aborts it and
// fills in their offsets.
func (c *Cluster) Transaction(ctx context.Context, id string, commit bool, records ...*kgo.Record) error {
	cl, err := c.Client(append(producerOpts(), kgo.TransactionalID(id))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return fmt.Errorf("beginning transaction: %w", err)
	}
	produced := cl.ProduceSync(ctx, records...).FirstErr()
	ended := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	if err := errors.Join(produced, ended); err != nil {
		return fmt.Errorf("writing transaction: %w", err)
	}
	return nil
}
