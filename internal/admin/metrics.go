package admin

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metric is one time series family whose value is read from a snapshot.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T, time.Time) float64
}

// collector turns snapshots into metrics. It holds no numbers of its own: what
// a scrape shows and what /status.json shows can never differ.
type collector struct {
	state   func() State
	journal *Journal

	build   *prometheus.Desc
	events  *prometheus.Desc
	lost    *prometheus.Desc
	process []metric[*State]
	routes  []metric[*Route]
}

// newRegistry returns a registry with the bridge's, Go's and the process's
// metrics. docs/operations.md explains each of ours.
func newRegistry(state func() State, journal *Journal) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister( // the descriptions are constants: the first test would see a panic
		newCollector(state, journal),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// name puts the bridge's prefix before a metric.
func name(s string) string { return "mskbridge_" + s }

func newCollector(state func() State, journal *Journal) *collector {
	return &collector{
		state:   state,
		journal: journal,
		build:   prometheus.NewDesc(name("build_info"), "Always 1; the version is a label.", []string{"version"}, nil),
		events:  prometheus.NewDesc(name("events_total"), "Events by kind, as in the log field event.", []string{"event"}, nil),
		lost:    prometheus.NewDesc(name("lost_offsets_total"), "Offsets that Kafka no longer had when they were due.", []string{"topic"}, nil),
		process: processMetrics(),
		routes:  routeMetrics(),
	}
}

func processMetrics() []metric[*State] {
	process := func(s, help string, v func(*State, time.Time) float64) metric[*State] {
		return metric[*State]{prometheus.NewDesc(name(s), help, nil, nil), prometheus.GaugeValue, v}
	}
	return []metric[*State]{
		process("joined", "1 while the process is a member of its group.",
			func(s *State, _ time.Time) float64 { return truth(s.Joined) }),
		process("ready", "1 when /ready answers 200.",
			func(s *State, _ time.Time) float64 { return truth(len(s.unready()) == 0) }),
		process("window_bytes", "Budget for bytes between poll and acknowledgement.",
			func(s *State, _ time.Time) float64 { return float64(s.Window) }),
		process("in_hand_bytes", "Bytes between poll and acknowledgement.",
			func(s *State, _ time.Time) float64 { return float64(s.InHand) }),
		process("loop_age_seconds", "Time since the stalest loop woke; /live fails above 60.",
			func(s *State, now time.Time) float64 { return s.oldestWake(now).Seconds() }),
	}
}

func routeMetrics() []metric[*Route] {
	route := func(kind prometheus.ValueType, s, help string, v func(*Route, time.Time) float64) metric[*Route] {
		return metric[*Route]{prometheus.NewDesc(name(s), help, []string{"topic"}, nil), kind, v}
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []metric[*Route]{
		route(gauge, "held", "1 while the route is held.",
			func(r *Route, _ time.Time) float64 { return truth(r.State == Held) }),
		route(gauge, "assigned_partitions", "Partitions assigned to this process.",
			func(r *Route, _ time.Time) float64 { return float64(r.Partitions) }),
		route(gauge, "lag_records", "Records behind the log end, assigned partitions.",
			func(r *Route, _ time.Time) float64 { return float64(r.LagRecords) }),
		route(gauge, "lag_seconds", "Age of the oldest record that is not committed, assigned partitions.",
			func(r *Route, _ time.Time) float64 { return r.LagSeconds }),
		route(gauge, "oldest_open_seconds", "Age of the oldest span in flight.",
			func(r *Route, now time.Time) float64 { return r.openFor(now).Seconds() }),
		route(gauge, "in_flight_requests", "Publish requests in flight.",
			func(r *Route, _ time.Time) float64 { return float64(r.InFlightRequests) }),
		route(gauge, "in_flight_bytes", "Bytes of requests in flight.",
			func(r *Route, _ time.Time) float64 { return float64(r.InFlightBytes) }),
		route(counter, "polled_records_total", "Records polled from Kafka.",
			func(r *Route, _ time.Time) float64 { return float64(r.Records) }),
		route(counter, "acknowledged_records_total", "Records that Pub/Sub acknowledged.",
			func(r *Route, _ time.Time) float64 { return float64(r.Acknowledged) }),
		route(counter, "parked_records_total", "Records parked on the dead-letter topic.",
			func(r *Route, _ time.Time) float64 { return float64(r.Parked) }),
		route(counter, "publish_requests_total", "Publish requests sent, probes and parking included.",
			func(r *Route, _ time.Time) float64 { return float64(r.Requests) }),
		route(counter, "publish_retries_total", "Publish requests tried again.",
			func(r *Route, _ time.Time) float64 { return float64(r.Retries) }),
		route(counter, "published_bytes_total", "Request bytes that Pub/Sub acknowledged.",
			func(r *Route, _ time.Time) float64 { return float64(r.PublishedBytes) }),
		route(counter, "fetched_records_total", "Records that brokers sent. Those above polled_records_total were fetched again after a pause.",
			func(r *Route, _ time.Time) float64 { return float64(r.Fetched) }),
		route(counter, "pauses_total", "Times fetching was paused because the route had its share in hand.",
			func(r *Route, _ time.Time) float64 { return float64(r.Pauses) }),
	}
}

// Describe sends every description.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.build
	ch <- c.events
	ch <- c.lost
	for _, m := range c.process {
		ch <- m.desc
	}
	for _, m := range c.routes {
		ch <- m.desc
	}
}

// Collect reads one snapshot and sends what it says.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	now, s := time.Now(), c.state()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		for i, l := range labels {
			labels[i] = strings.ToValidUTF8(l, "?")
		}
		m, err := prometheus.NewConstMetric(d, kind, v, labels...)
		if err != nil {
			m = prometheus.NewInvalidMetric(d, err)
		}
		ch <- m
	}
	send(c.build, prometheus.GaugeValue, 1, s.Version)
	for _, k := range kinds() {
		send(c.events, prometheus.CounterValue, float64(c.journal.count(k)), string(k))
	}
	for _, m := range c.process {
		send(m.desc, m.kind, m.value(&s, now))
	}
	for i := range s.Routes {
		r := &s.Routes[i]
		for _, m := range c.routes {
			send(m.desc, m.kind, m.value(r, now), r.Topic)
		}
		send(c.lost, prometheus.CounterValue, float64(c.journal.lostOffsets(r.Topic)), r.Topic)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
