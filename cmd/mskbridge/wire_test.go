package main

import (
	"log/slog"
	"testing"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/sink"
)

func TestRouteOptions(t *testing.T) {
	folder := "file://" + t.TempDir()
	route := func(topic string, o config.RouteOptions) config.Route {
		return config.Route{Topic: topic, Destination: "projects/p/topics/" + topic, RouteOptions: o}
	}
	cfg := &config.Config{Settings: config.Settings{Brokers: []string{"127.0.0.1:9092"}, Auth: config.AuthPlaintext}}
	cfg.Routes = []config.Route{
		route("one", config.RouteOptions{Format: config.FormatEnvelope, Value: config.ValueJSON, Ordering: config.OrderingKey, OnOversize: config.OnOversizeStore, Store: folder}),
		route("two", config.RouteOptions{Format: config.FormatEnvelope, Value: config.ValueBytes, Ordering: config.OrderingPartition, OnOversize: config.OnOversizeHold, Headers: &config.Headers{Deny: []string{"x"}}}),
		route("three", config.RouteOptions{Format: config.FormatRaw, Value: config.ValueBytes, Ordering: config.OrderingNone, OnOversize: config.OnOversizePark, Store: folder}),
		route("four", config.RouteOptions{OnOversize: config.OnOversizeStore, Store: folder}),
	}
	in, err := consumerOptions(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	out := sinkOptions(cfg)
	opened := stores{}
	if err := opened.attach(t.Context(), cfg, out.Routes); err != nil {
		t.Fatal(err)
	}
	defer opened.close(slog.New(slog.DiscardHandler))
	for i, want := range []struct {
		ordering consumer.Ordering
		oversize sink.Oversize
		headers  bool
		format   message.Format
	}{
		{consumer.OrderingKey, sink.StoreOversize, false, message.EnvelopeJSON},
		{consumer.OrderingPartition, sink.HoldOversize, true, message.EnvelopeBytes},
		{consumer.OrderingNone, sink.ParkOversize, false, message.Raw},
		{consumer.OrderingNone, sink.StoreOversize, false, message.Raw},
	} {
		from, to := in.Routes[i], out.Routes[i]
		if from.Ordering != want.ordering || (from.Headers != nil) != want.headers || to.Oversize != want.oversize || from.Format != want.format {
			t.Errorf("route %s: %+v, %+v", from.Topic, from, to)
		}
		if (to.Store != nil) != (to.Oversize == sink.StoreOversize) {
			t.Errorf("route %s has store %v", to.Topic, to.Store)
		}
	}
	if len(opened) != 1 || out.Routes[0].Store != out.Routes[3].Store {
		t.Errorf("%d stores were opened, want 1 for both", len(opened))
	}
	cfg.Routes[0].Store = folder + "/missing"
	if err := opened.attach(t.Context(), cfg, out.Routes); err == nil {
		t.Error("a folder that is not there was opened")
	}
}
