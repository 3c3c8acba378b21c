//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

const topicsOfUse = 24 // of the bridge's users, "20 and more"

// full measures what a record costs when there is always another one.
func (b *bench) full(ctx context.Context) error {
	for _, value := range []int{200, 1000} {
		if err := b.endless(ctx, value); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) endless(ctx context.Context, value int) error {
	k, err := openKafka(nil, value)
	if err != nil {
		return err
	}
	defer k.close()
	topics, err := b.topics(ctx, k, "full-", topicsOfUse)
	if err != nil {
		return err
	}
	bridges := []bridge{ours, inOrder, stock}
	results := make([][]window, len(bridges)) // of each bridge, by round
	for range b.rounds {
		for i, which := range bridges {
			w, err := b.fullSpeed(ctx, which, k, topics)
			if err != nil {
				return err
			}
			results[i] = append(results[i], w)
		}
	}
	t := newTable(fmt.Sprintf("full: %d topics x %d, values of %d bytes, 3 headers, answer at once, windows of %v, %d rounds",
		len(topics), partitions, value, b.window, b.rounds),
		"bridge", "CPU-s/M", "ratio", "krec/s", "ratio", "msg/request", "peak RSS MiB")
	for i, which := range bridges {
		all, base := results[i], results[0]
		cpu, rate := median(all, window.perMillion), median(all, window.rate)
		t.row(which.name, fmt.Sprintf("%.2f", cpu), fmt.Sprintf("%.1f", cpu/median(base, window.perMillion)),
			fmt.Sprintf("%.0f", rate/1000), fmt.Sprintf("%.2f", rate/median(base, window.rate)),
			fmt.Sprintf("%.0f", median(all, func(w window) float64 { return w.records / w.requests })),
			mib(median(all, func(w window) float64 { return float64(w.peak) })))
	}
	return t.print(b.out)
}

func (b *bench) fullSpeed(ctx context.Context, which bridge, k *kafka, topics []string) (w window, err error) {
	err = b.run(ctx, which, k, topics, 0, func(r *running) error {
		if err := b.await(ctx, r, func(c counts) bool { return c.Messages > 0 }); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil { // buffers grow to their size
			return err
		}
		w, err = b.measure(r, func() error { return pause(ctx, b.window) })
		if err == nil && w.records == 0 {
			err = fmt.Errorf("%s: nothing came within %v", which.name, b.window)
		}
		return err
	})
	return w, err
}
