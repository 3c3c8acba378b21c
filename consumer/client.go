package consumer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientID tells our members of the group from strangers.
const clientID = "mskbridge"

// reach says how any client of ours gets to the brokers and who it says it is.
func (o *Options) reach() []kgo.Opt {
	opts := []kgo.Opt{kgo.ClientID(clientID), kgo.SeedBrokers(o.Brokers...), kgo.DisableClientMetrics()}
	if o.Dial != nil {
		opts = append(opts, kgo.Dialer(o.Dial))
	}
	opts = append(opts, o.Auth.options()...)
	if o.ClientLog != nil {
		opts = append(opts, kgo.WithLogger(clientLogger{o.ClientLog}))
	}
	return opts
}

// fetchMaxWaitMillis is how long a broker waits for something to send.
const fetchMaxWaitMillis = 500

// batchLimits bound what one answer holds: one batch may be larger than any
// fetch size, but a bomb may not fill memory.
func batchLimits() []kgo.Opt {
	return []kgo.Opt{kgo.BrokerMaxReadBytes(100 << 20), kgo.MaxDecompressBatchBytes(64 << 20)}
}

// options are those of the one Kafka client that consumes.
func (c *Consumer) options() []kgo.Opt {
	o := &c.opts
	topics := slices.Collect(maps.Keys(c.lanes.all()))
	return append(append(o.reach(), batchLimits()...),
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeTopics(topics...),
		// Cooperative-sticky moves only the partitions that must move. Members are
		// dynamic: Cloud Run instances have no stable identity, and revisions overlap.
		kgo.Balancers(&c.reborn),
		kgo.SessionTimeout(o.SessionTimeout),
		kgo.HeartbeatInterval(min(3*time.Second, o.SessionTimeout/3)),
		kgo.RebalanceTimeout(30*time.Second),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(c.onAssigned),
		kgo.OnPartitionsRevoked(c.onRevoked),
		kgo.OnPartitionsLost(c.onLost),
		kgo.AdjustFetchOffsetsFn(c.onPlaced),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(commitEvery),
		kgo.AutoCommitCallback(c.onCommitted),
		// Both are explicit: the client's defaults have changed between releases,
		// and one of them starts at the end.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		// Else the client asks for a topic that is gone again and again, without a
		// pause and without a word; a fetch is not repeated before it was polled.
		kgo.KeepRetryableFetchErrors(),
		kgo.FetchMinBytes(1),
		kgo.FetchMaxWait(fetchMaxWaitMillis*time.Millisecond),
		kgo.FetchMaxBytes(o.Sizes.FetchMaxBytes),
		kgo.FetchMaxPartitionBytes(o.Sizes.FetchMaxPartition),
		kgo.MetadataMaxAge(time.Minute),
		kgo.MetadataMinAge(time.Second),
		kgo.WithHooks(fetchedHook{&c.lanes}, &renewals{tell: o.Events, fresh: map[int32]int{}}),
	)
}

// fetchedHook counts the records that brokers sent, so that those fetched twice
// because of a pause can be told.
type fetchedHook struct{ lanes *laneSet }

func (h fetchedHook) OnFetchBatchRead(_ kgo.BrokerMetadata, topic string, _ int32, m kgo.FetchBatchMetrics) {
	if l := h.lanes.of(topic); l != nil {
		l.stats.fetched.Add(int64(m.NumRecords))
	}
}

// clientLogger hands the client's lines to slog. It asks for warnings at most:
// what the client tells below is about its own working.
type clientLogger struct{ log *slog.Logger }

func (l clientLogger) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) { //nolint:forbidigo // the interface has no context
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelWarn
}

func (l clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	at := slog.LevelDebug
	switch level {
	case kgo.LogLevelError, kgo.LogLevelWarn:
		at = slog.LevelWarn
	case kgo.LogLevelInfo, kgo.LogLevelDebug, kgo.LogLevelNone:
	}
	l.log.Log(context.Background(), at, "kafka client: "+msg, keyvals...) //nolint:forbidigo,sloglint // the interface has no context, and the text is the client's
}
