package consumer

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

func inspectOptions(dial func(context.Context, string, string) (net.Conn, error), brokers ...string) Options {
	return Options{
		Brokers: brokers, Group: "bridge", Cluster: "test", Dial: dial,
		Routes: []Route{{Topic: "orders", Destination: "projects/p/topics/orders"}, {Topic: "gone", Destination: "projects/p/topics/gone"}},
	}
}

// Whoever does not answer, it ends in time and says who it was.
func TestInspectEndsInTime(t *testing.T) {
	hangs := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	silent := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { // swallows what we say
			for b := make([]byte, 1024); ; {
				if _, err := theirs.Read(b); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){"dials hang": hangs, "brokers are silent": silent} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				found, err := Inspect(t.Context(), inspectOptions(dial, "b-1:9098", "b-2:9098", "b-3:9098"))
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(begun); d > 21*time.Second {
					t.Errorf("took %v", d)
				}
				if found.Cause != Silent || len(found.Brokers) != 3 || len(found.Topics) != 0 {
					t.Errorf("cause %v (%v), %d brokers, %d topics", found.Cause, found.Err, len(found.Brokers), len(found.Topics))
				}
				for _, b := range found.Brokers {
					if (b.DialErr != nil) != (name == "dials hang") {
						t.Errorf("broker %s: %v", b.Address, b.DialErr)
					}
				}
			})
		})
	}
}

// One broker of three that hangs costs what only it knows.
func TestInspectWithOneBrokerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := fakekafka.Start(fakekafka.Options{Brokers: 3, Network: &kfake.VirtualNetwork{}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.Create("orders", 6, map[string]string{"retention.ms": "-1", "max.message.bytes": "5000000"}); err != nil {
			t.Fatal(err)
		}
		dead := k.Brokers()[1]
		begun := time.Now()
		found, err := Inspect(t.Context(), inspectOptions(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == dead {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return k.Dial(ctx, network, address)
		}, k.Brokers()...))
		if err != nil || found.Err != nil {
			t.Fatal(err, found.Err)
		}
		if d := time.Since(begun); d > 25*time.Second {
			t.Errorf("took %v", d)
		}
		for _, b := range found.Brokers {
			if want := b.Address == dead; errors.Is(b.DialErr, context.DeadlineExceeded) != want || b.Node < 0 || b.FetchIDs == want {
				t.Errorf("%+v", b)
			}
		}
		orders, gone := found.Topics[0], found.Topics[1]
		if orders.Cause != Answered || len(orders.Partitions) != 6 || orders.ID != k.TopicID("orders") || orders.MayRead != fault.Yes {
			t.Errorf("orders: %+v", orders)
		}
		if gone.Cause != Missing {
			t.Errorf("gone: %+v", gone)
		}
	})
}
