//go:build unix

// Package emulator runs the Pub/Sub emulator of the Google Cloud SDK for tests,
// makes topics on it and receives what they got. The emulator checks few of
// Pub/Sub's limits: it proves compatibility; package fakepubsub proves limits.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mskbridge/mskbridge/internal/testbed/process"
)

// maxMessage is what the client lets in: a Pub/Sub request and its framing.
const maxMessage = 64 << 20

// Emulator is a running emulator, ours or somebody's. Safe for concurrent use.
type Emulator struct {
	address string
	dir     string
	process *process.Process // nil when it is not ours

	conn       *grpc.ClientConn
	publisher  pubsubpb.PublisherClient
	subscriber pubsubpb.SubscriberClient
}

// Existing returns the address in PUBSUB_EMULATOR_HOST, by which people who
// have an emulator use it instead of a launched one, or "".
func Existing() string { return os.Getenv("PUBSUB_EMULATOR_HOST") }

// Start launches the SDK's emulator on a free loopback port and waits until it
// answers. It returns a process.MissingError when it cannot be found.
func Start(ctx context.Context) (*Emulator, error) {
	script, err := find(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := process.Ports(1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mskbridge-emulator-")
	if err != nil {
		return nil, fmt.Errorf("making the emulator's folder: %w", err)
	}
	p, err := process.Start(process.Spec{
		Name: "emulator", Path: script, Dir: dir,
		Args: []string{"--host=127.0.0.1", fmt.Sprintf("--port=%d", ports[0])},
	})
	if err != nil {
		return nil, err
	}
	e, err := Attach(fmt.Sprintf("127.0.0.1:%d", ports[0]))
	if err == nil {
		e.process, e.dir = p, dir
		err = e.await(ctx)
	}
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("starting the pub/sub emulator: %w\n%s", err, p.Tail(20))
	}
	return e, nil
}

// Attach uses an emulator that runs already. It dials nothing yet.
func Attach(address string) (*Emulator, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connecting to the pub/sub emulator at %s: %w", address, err)
	}
	return &Emulator{
		address: address, conn: conn,
		publisher: pubsubpb.NewPublisherClient(conn), subscriber: pubsubpb.NewSubscriberClient(conn),
	}, nil
}

// await first wants the line that our own process prints once it has the port,
// so that a stranger's emulator on it cannot be taken for ours.
func (e *Emulator) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(e.process.Tail(50), "listening on") {
		select {
		case <-e.process.Done():
			return fmt.Errorf("it ended with exit code %d", e.process.ExitCode())
		case <-ctx.Done():
			return fmt.Errorf("waiting for its port: %w", ctx.Err())
		case <-tick.C:
		}
	}
	_, err := e.publisher.ListTopics(ctx, &pubsubpb.ListTopicsRequest{Project: "projects/none"}, grpc.WaitForReady(true))
	return err
}

// Address returns host:port, the value for PUBSUB_EMULATOR_HOST.
func (e *Emulator) Address() string { return e.address }

// Close ends the emulator, if it is ours, and the connection to it.
func (e *Emulator) Close() error {
	err := e.conn.Close()
	if e.process != nil {
		e.process.Kill()
		err = errors.Join(err, os.RemoveAll(e.dir))
	}
	return err
}
