package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
)

// reloadEvery is how often the routes file is looked at. Its content is read
// each time: a mounted secret is replaced by other means than a write, and each
// read of one may be a request to the secret's store.
const reloadEvery = 10 * time.Second

// reloader keeps the routes as the routes file says.
type reloader struct {
	*bridge
	seen string // version of the file at the last look; "" makes the next one judge it anew

	mu       sync.Mutex // guards what follows
	inForce  *config.Config
	since    time.Time
	rejected string // why the file as it is now is not in force
}

func newReloader(b *bridge) *reloader {
	return &reloader{bridge: b, seen: b.cfg.RoutesVersion, inForce: b.cfg, since: b.started}
}

// watch looks at the routes file from time to time, and at each SIGHUP, until
// ctx ends. Where routes come from the environment there is nothing to watch.
func (r *reloader) watch(ctx context.Context) {
	if r.cfg.RoutesFile == "" {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			r.seen = ""
		case <-tick.C:
		}
		r.look(ctx)
	}
}

// look puts the routes file in force when it has changed and is sound.
func (r *reloader) look(ctx context.Context) {
	next, version, err := r.inForce.Reload(r.seen)
	r.seen = version
	if next != nil {
		if err = r.apply(ctx, next); err != nil {
			r.seen = "" // the file is sound: what is wrong may pass
		}
	}
	if err == nil && next == nil || ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.inForce, r.since, r.rejected = next, time.Now(), ""
		return
	}
	if why := oneLine(err); why != r.rejected {
		r.rejected = why
		r.events(fault.Event{Kind: fault.ConfigRejected, Partition: -1, Reason: "the routes file is not put in force, the one before stays: " + why})
	}
}

// apply changes what differs. A route that changes is drained as one that goes,
// and begun anew.
func (r *reloader) apply(ctx context.Context, next *config.Config) error {
	if err := next.ResolveProject(ctx, config.MetadataProject); err != nil {
		return err
	}
	out := sinkOptions(next).Routes
	if err := r.stores.attach(ctx, next, out); err != nil {
		return err
	}
	added, removed, changed := r.inForce.Changes(next)
	r.consumer.RemoveRoutes(ctx, slices.Concat(removed, changed)...)
	if err := r.sink.SetRoutes(out); err != nil {
		return err
	}
	begun := slices.DeleteFunc(consumerRoutes(next), func(route consumer.Route) bool {
		return !slices.Contains(added, route.Topic) && !slices.Contains(changed, route.Topic)
	})
	if err := r.consumer.AddRoutes(ctx, begun...); err != nil {
		return err
	}
	r.log.Info("routes file in force", slog.String("version", next.RoutesVersion), slog.Int("routes", len(next.Routes)),
		slog.Any("added", added), slog.Any("removed", removed), slog.Any("changed", changed))
	return nil
}

// status is what is shown of the routes file.
func (r *reloader) status() admin.RoutesFile {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inForce.RoutesVersion == "" {
		return admin.RoutesFile{}
	}
	return admin.RoutesFile{Version: r.inForce.RoutesVersion, Since: r.since, Rejected: r.rejected}
}
