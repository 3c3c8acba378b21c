//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// idle measures what a bridge costs when there is little or nothing to do.
func (b *bench) idle(ctx context.Context) error {
	k, err := openKafka(b.given, 0)
	if err != nil {
		return err
	}
	defer k.close()
	rates := []int{0, 5, 200} // records a second and topic
	tables := make([]*table, len(rates))
	for i, rate := range rates {
		tables[i] = newTable(fmt.Sprintf("idle: %d topics x %d rec/s, answer at once, %s, windows of %v", topicsOfUse, rate, k.where, b.window),
			"bridge", "CPU % of a core", "RSS MiB", "p50 ms", "p99", "msg/request")
	}
	for _, which := range []bridge{ours, quick, inOrder} { // at one record a poll both textbooks are the same
		if err := b.idler(ctx, which, k, rates, tables); err != nil {
			return err
		}
	}
	for _, t := range tables {
		if err := t.print(b.out); err != nil {
			return err
		}
	}
	return nil
}

// idler runs one bridge at one rate after the other.
func (b *bench) idler(ctx context.Context, which bridge, k *kafka, rates []int, tables []*table) (err error) {
	topics, err := b.topics(ctx, k, timed, topicsOfUse)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.forget(ctx, topics)) }()
	return b.run(ctx, which, k, topics, 0, func(r *running) error {
		trickled := k.background(ctx, topics, 10*len(topics)) // until the bridge is there
		err := b.await(ctx, r, func(c counts) bool { return c.Messages > 0 })
		sent, failed := trickled()
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		for i, rate := range rates {
			if err := b.await(ctx, r, func(c counts) bool { return c.Timed >= sent }); err != nil {
				return err
			}
			if sent, err = b.idleAt(ctx, r, k, topics, rate*len(topics), tables[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// idleAt adds the row of one rate and returns how many records it took.
func (b *bench) idleAt(ctx context.Context, r *running, k *kafka, topics []string, perSecond int, t *table) (sent int, err error) {
	if err := pause(ctx, time.Second); err != nil { // what came before is done
		return 0, err
	}
	if _, err := b.pubsub.ask(order{Reset: true}); err != nil {
		return 0, err
	}
	w, err := b.measure(r, func() (err error) {
		limited, stop := context.WithTimeout(ctx, b.window)
		defer stop()
		sent, err = k.trickle(limited, topics, perSecond)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := b.await(ctx, r, func(c counts) bool { return c.Timed >= sent }); err != nil {
		return 0, err
	}
	c, err := b.pubsub.ask(order{Times: true})
	if err != nil {
		return 0, err
	}
	cells := []string{r.name, fmt.Sprintf("%.2f", 100*w.cpu/w.wall), mib(float64(w.now)), "-", "-", "-"}
	if sent > 0 {
		cells[3], cells[4], cells[5] = millis(c.P50), millis(c.P99), fmt.Sprintf("%.1f", float64(c.Messages)/float64(c.Requests))
	}
	t.row(cells...)
	return sent, nil
}
