package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/sink"
)

// state joins what both sides know into what admin shows.
func (b *bridge) state() admin.State {
	in, out := b.consumer.Snapshot(), b.sink.Snapshot()
	s := admin.State{
		Version: versionText(), Group: b.cfg.Group, Cluster: b.cfg.Cluster, Started: b.started,
		BrokerSeen: in.Answered, Joined: in.Joined, Loops: in.Loops,
		RoutesFile: b.reload.status(), Window: in.Window, InHand: in.InHand,
		Routes: make([]admin.Route, 0, len(in.Routes)),
	}
	if !out.OldestWait.IsZero() {
		s.Loops["retry wait"] = out.OldestWait
	}
	if in.Trouble.Reason != "" {
		s.Reasons = append(s.Reasons, "kafka: "+in.Trouble.Reason)
	}
	published := make(map[string]sink.RouteSnapshot, len(out.Routes))
	for _, r := range out.Routes {
		published[r.Topic] = r
	}
	lag := make(map[string]consumer.RouteLag, len(in.Routes))
	for _, r := range b.consumer.Lag().Routes {
		lag[r.Topic] = r
	}
	for i := range in.Routes {
		s.Routes = append(s.Routes, route(&in.Routes[i], published[in.Routes[i].Topic], lag[in.Routes[i].Topic]))
	}
	return s
}

// route joins both sides of one route. What Kafka says comes first: without
// records the other side has nothing to say.
func route(in *consumer.RouteSnapshot, out sink.RouteSnapshot, lag consumer.RouteLag) admin.Route {
	r := admin.Route{
		Topic: in.Topic, Destination: out.Destination,
		State: admin.Running, Since: out.Since, LastError: cmp.Or(out.LastError, in.Trouble.Reason),
		Partitions: in.Partitions, LagRecords: lag.Records, LagSeconds: lag.Seconds,
		InFlightRequests: int(in.InFlight), InFlightBytes: in.InHand, OldestOpen: in.Oldest,
		Records: in.Polled, Acknowledged: out.Published, Parked: out.Parked, Stored: out.Stored, Framing: in.Framing,
		Fetched: in.Fetched, Requests: out.Requests, Retries: out.Retries, PublishedBytes: out.Bytes,
		Paused: in.Paused, Pauses: in.Pauses,
	}
	switch {
	case in.Trouble.Reason != "":
		r.State, r.Reason, r.Since = admin.Held, in.Trouble.Reason, in.Trouble.Since
	case out.State == sink.Held:
		r.State, r.Reason = admin.Held, out.Reason
	case out.State == sink.Retrying:
		r.State, r.Reason = admin.Retrying, out.LastError
	default:
		r.Reason = lag.Reason
	}
	return r
}

// lag answers /lag from the consumer's last look.
func (b *bridge) lag(context.Context) (admin.Lag, error) {
	in := b.consumer.Lag()
	if in.At.IsZero() {
		return admin.Lag{}, errors.New("kafka has not answered yet: " + cmp.Or(b.consumer.Snapshot().Trouble.Reason, "still connecting"))
	}
	states := make(map[string]admin.Route, len(in.Routes))
	for _, r := range b.state().Routes {
		states[r.Topic] = r
	}
	lag := admin.Lag{Group: in.Group, Records: in.Records, Seconds: in.Seconds}
	for _, r := range in.Routes {
		lag.Routes = append(lag.Routes, admin.RouteLag{
			Topic: r.Topic, Records: r.Records, Seconds: r.Seconds, State: states[r.Topic].State, Reason: states[r.Topic].Reason,
		})
	}
	return lag, nil
}
