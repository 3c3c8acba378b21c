//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	backlogValue = 1000 // bytes
	sinkTakes    = 30 * time.Millisecond
	quietTopics  = 20
	quietRate    = 3 * quietTopics // records a second, all together

	// What mskbridge promises with ourMemory.
	mostMemory  = 300 << 20
	mostLatency = time.Second
)

// drain lets one route of 24 catch up while 20 others have a little to do.
func (b *bench) drain(ctx context.Context) error {
	k, err := openKafka(b.given, 0)
	if err != nil {
		return err
	}
	defer k.close()
	t := newTable(fmt.Sprintf("backlog: %d MB in one topic of %d, %d quiet ones with %d rec/s, sink at %v, BRIDGE_MEMORY=%s, %s",
		b.backlog, topicsOfUse, quietTopics, quietRate, sinkTakes, ourMemory, k.where),
		"bridge", "CPU-s/M", "ratio", "krec/s", "ratio", "peak RSS MiB", "quiet p50 ms", "p99", "worst")
	var base window
	var broken error
	for i, which := range []bridge{ours, inOrder} {
		w, quiet, err := b.drainOnce(ctx, which, k)
		if err != nil {
			return err
		}
		if i == 0 {
			base, broken = w, verdict(w, quiet)
		}
		t.row(which.name, fmt.Sprintf("%.2f", w.perMillion()), fmt.Sprintf("%.1f", w.perMillion()/base.perMillion()),
			fmt.Sprintf("%.0f", w.rate()/1000), fmt.Sprintf("%.2f", w.rate()/base.rate()),
			mib(float64(w.peak)), millis(quiet.P50), millis(quiet.P99), millis(quiet.Worst))
	}
	return errors.Join(t.print(b.out), broken)
}

func verdict(w window, quiet counts) error {
	var broken []error
	if w.peak > mostMemory {
		broken = append(broken, fmt.Errorf("peak resident size %d MiB, want at most %d", w.peak>>20, mostMemory>>20))
	}
	if quiet.Worst > mostLatency {
		broken = append(broken, fmt.Errorf("a record of a quiet topic took %v, want at most %v", quiet.Worst, mostLatency))
	}
	return errors.Join(broken...)
}

// drainOnce measures from the first record to the last of the backlog, and the
// times of the quiet topics meanwhile.
func (b *bench) drainOnce(ctx context.Context, which bridge, k *kafka) (w window, quiet counts, err error) {
	slow, err := b.topics(ctx, k, timed, quietTopics)
	if err != nil {
		return w, quiet, err
	}
	others, err := b.topics(ctx, k, "backlog-", topicsOfUse-quietTopics)
	if err != nil {
		return w, quiet, err
	}
	all := append(others, slow...)
	defer func() { err = errors.Join(err, k.forget(ctx, all)) }()
	records := b.backlog * 1_000_000 / backlogValue
	if err := k.fill(ctx, others[0], records, backlogValue); err != nil {
		return w, quiet, err
	}
	err = b.run(ctx, which, k, all, sinkTakes, func(r *running) error {
		if err := b.await(ctx, r, func(c counts) bool { return c.Messages > 0 }); err != nil {
			return err
		}
		trickled := k.background(ctx, slow, quietRate)
		w, err = b.measure(r, func() error {
			return b.await(ctx, r, func(c counts) bool { return c.Messages-int64(c.Timed) >= int64(records) })
		})
		sent, failed := trickled()
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if err := b.await(ctx, r, func(c counts) bool { return c.Timed >= sent }); err != nil {
			return err
		}
		quiet, err = b.pubsub.ask(order{Times: true})
		return err
	})
	return w, quiet, err
}
