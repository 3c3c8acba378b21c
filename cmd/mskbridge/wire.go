package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/logging"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/sink"
)

// closeLimit bounds closing the Pub/Sub connections, which is not by itself.
const closeLimit = 300 * time.Millisecond

// bridge is both sides joined, with what shows them. run and demo make the same.
type bridge struct {
	cfg      *config.Config
	log      *slog.Logger
	started  time.Time
	listener net.Listener
	journal  *admin.Journal
	events   func(fault.Event)
	reload   *reloader
	stores   stores
	sink     *sink.Sink
	consumer *consumer.Consumer
}

// newBridge builds everything and dials nothing but, where there are
// credentials to find, their source. It opens the port first, so that probes
// have somebody to wait for.
func newBridge(ctx context.Context, cfg *config.Config, log *slog.Logger) (*bridge, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(int(cfg.Port))))
	if err != nil {
		return nil, fmt.Errorf("opening the port for health and status: %w", err)
	}
	b := &bridge{cfg: cfg, log: log, started: time.Now(), listener: listener, journal: &admin.Journal{}, stores: stores{}}
	if err := b.join(ctx); err != nil {
		listener.Close()
		return nil, err
	}
	b.reload = newReloader(b)
	return b, nil
}

// join builds the sink and the consumer that publishes through it.
func (b *bridge) join(ctx context.Context) error {
	tell := logging.Events(b.log) //nolint:contextcheck // events come without a context
	b.events = func(e fault.Event) {
		b.journal.Add(e)
		tell(e)
	}
	in, err := consumerOptions(ctx, b.cfg, b.log)
	if err != nil {
		return err
	}
	out := sinkOptions(b.cfg)
	in.Events, in.ClientLog, out.Events = b.events, b.log, b.events
	if err := b.stores.attach(ctx, b.cfg, out.Routes); err != nil {
		return err
	}
	if b.sink, err = sink.New(ctx, out); err != nil {
		return err
	}
	if b.consumer, err = consumer.New(in, b.sink); err != nil {
		closeSink(b.sink, b.log)
		return err
	}
	return nil
}

// consumerOptions is the Kafka side as the configuration says, but for who
// listens to it. log is told of credentials that could not be refreshed.
func consumerOptions(ctx context.Context, cfg *config.Config, log *slog.Logger) (consumer.Options, error) {
	dial, auth, err := brokerAccess(ctx, cfg, log)
	if err != nil {
		return consumer.Options{}, err
	}
	in := consumer.Options{
		Brokers: cfg.Brokers, Group: cfg.Group, Cluster: cfg.Cluster,
		SessionTimeout: cfg.SessionTimeout, Dial: dial, Auth: auth,
		Sizes: consumer.Sizes{
			Window: cfg.Sizes.Window, FetchMaxBytes: cfg.Sizes.FetchMaxBytes, FetchMaxPartition: cfg.Sizes.FetchMaxPartition,
			SlabBytes: cfg.Sizes.SlabBytes, InFlight: cfg.Sizes.InFlight,
			Linger: cfg.Sizes.Linger, PollEvery: cfg.Sizes.PollEvery,
		},
		Routes: consumerRoutes(cfg),
	}
	return in, nil
}

func consumerRoutes(cfg *config.Config) (routes []consumer.Route) {
	for _, r := range cfg.Routes {
		route := consumer.Route{Topic: r.Topic, Destination: r.Destination, Ordering: orderings()[r.Ordering], Format: formatOf(r), Start: consumer.Start{Latest: r.Start == config.StartLatest}}
		if at, err := time.Parse(time.RFC3339, r.Start); err == nil {
			route.Start.At = at
		}
		if r.Headers != nil {
			route.Headers = message.NewHeaderFilter(r.Headers.Allow, r.Headers.Deny)
		}
		for _, skip := range r.Skip {
			route.Skip = append(route.Skip, consumer.Skip{Partition: skip.Partition, From: skip.From, To: skip.To})
		}
		routes = append(routes, route)
	}
	return routes
}

func formatOf(r config.Route) message.Format {
	switch {
	case r.Format != config.FormatEnvelope:
		return message.Raw
	case r.Value == config.ValueJSON:
		return message.EnvelopeJSON
	default:
		return message.EnvelopeBytes
	}
}

func orderings() map[string]consumer.Ordering {
	return map[string]consumer.Ordering{
		config.OrderingNone: consumer.OrderingNone, config.OrderingPartition: consumer.OrderingPartition, config.OrderingKey: consumer.OrderingKey,
	}
}

func oversizes() map[string]sink.Oversize {
	return map[string]sink.Oversize{
		config.OnOversizePark: sink.ParkOversize, config.OnOversizeHold: sink.HoldOversize, config.OnOversizeStore: sink.StoreOversize,
	}
}

// sinkOptions is the Pub/Sub side as the configuration says, but for who
// listens to it and for stores, which have to be attached.
func sinkOptions(cfg *config.Config) sink.Options {
	out := sink.Options{Endpoint: cfg.PubSubEndpoint, Emulator: cfg.EmulatorHost, Connections: cfg.PublishConnections}
	for _, r := range cfg.Routes {
		out.Routes = append(out.Routes, sink.Route{
			Topic: r.Topic, Destination: r.Destination, DeadLetter: r.DeadLetter, HoldPoison: r.OnPoison == config.OnPoisonHold,
			Oversize: oversizes()[r.OnOversize],
		})
	}
	return out
}

// run works until ctx ends, then stops within the limits of consumer.Run.
func (b *bridge) run(ctx context.Context) error {
	b.log.Info("starting", slog.String("version", versionText()), slog.Int("routes", len(b.cfg.Routes)),
		slog.String("group", b.cfg.Group), slog.Any("brokers", b.cfg.Brokers),
		slog.String("address", b.listener.Addr().String()), slog.String("sizes", b.cfg.Sizes.String()))
	// The pages stay up while the consumer drains: that is when one looks.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	served := make(chan error, 1) // written once by the goroutine below
	go func() {
		handler := admin.NewHandler(admin.Options{State: b.state, Lag: b.lag, Journal: b.journal})
		served <- admin.Serve(serving, b.listener, handler, b.log)
		stopWorking() // without its port the platform cannot see us
	}()
	reloading := make(chan struct{})
	go func() {
		defer close(reloading)
		b.reload.watch(working)
	}()
	err := b.consumer.Run(working)
	stopWorking()
	<-reloading
	stopServing()
	if serveErr := <-served; err == nil {
		err = serveErr
	}
	closeSink(b.sink, b.log)
	b.stores.close(b.log)
	b.log.Info("stopped")
	return err
}

// closeSink waits for a short while.
func closeSink(s *sink.Sink, log *slog.Logger) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := s.Close(); err != nil {
			log.Debug("closing", slog.Any("error", err))
		}
	}()
	late := time.NewTimer(closeLimit)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
	}
}
