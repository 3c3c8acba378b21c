package sink

import (
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	defaultConnections = 4
	// keepaliveTime is what Google's own Pub/Sub client uses; servers answer
	// more frequent pings with GOAWAY. With it gRPC sets TCP_USER_TIMEOUT to
	// keepaliveTimeout, which is what notices a peer that no longer takes bytes.
	keepaliveTime    = 5 * time.Minute
	keepaliveTimeout = 20 * time.Second
)

// clientOptions turns o into options of the generated client.
func clientOptions(o Options) []option.ClientOption {
	connections := o.Connections
	if connections == 0 {
		connections = defaultConnections
	}
	// gRPC's own wait between dials grows to 2 minutes: after an outage a route
	// would stand still for as long. Ours ends at 5 s.
	dial := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 500 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
		MinConnectTimeout: 10 * time.Second,
	}
	opts := []option.ClientOption{
		option.WithGRPCConnectionPool(connections),
		option.WithTelemetryDisabled(), // costs 17 us per request; we count ourselves
		option.WithGRPCDialOption(grpc.WithConnectParams(dial)),
		option.WithGRPCDialOption(grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout})),
		option.WithGRPCDialOption(grpc.WithDisableRetry()),
		option.WithGRPCDialOption(grpc.WithDisableServiceConfig()), // else DNS may turn retries on
	}
	switch {
	case o.Emulator != "":
		opts = append(opts,
			option.WithEndpoint(o.Emulator),
			option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	case o.Endpoint != "":
		opts = append(opts, option.WithEndpoint(o.Endpoint))
	}
	return append(opts, o.Client...)
}
