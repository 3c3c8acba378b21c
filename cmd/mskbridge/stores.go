package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/store"
	"github.com/mskbridge/mskbridge/sink"
)

// stores are the open stores by address. Each is opened once, so that a route
// that is configured again as it was is the same route.
type stores map[string]*store.Store

// attach gives the sink's routes, which are those of cfg, the stores they need.
func (s stores) attach(ctx context.Context, cfg *config.Config, routes []sink.Route) error {
	for i, r := range cfg.Routes {
		if r.OnOversize != config.OnOversizeStore {
			continue
		}
		if s[r.Store] == nil {
			opened, err := store.Open(ctx, r.Store)
			if err != nil {
				return fmt.Errorf("route %s: %w", r.Topic, err)
			}
			s[r.Store] = opened
		}
		routes[i].Store = s[r.Store]
	}
	return nil
}

func (s stores) close(log *slog.Logger) {
	for _, opened := range s {
		if err := opened.Close(); err != nil {
			log.Debug("closing", slog.Any("error", err))
		}
	}
}
