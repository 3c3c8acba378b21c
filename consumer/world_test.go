//go:build synctests

package consumer

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/testbed/link"
)

// place is where a record lies.
type place struct {
	topic     string
	partition int32
	offset    int64
}

// world is an embedded Kafka in a bubble, with members of the real Consumer and
// what happened to every record. At the broker it checks, commit by commit,
// that none passes a record that is not acknowledged, and that none goes back.
type world struct {
	t     *testing.T
	kafka *fakekafka.Cluster
	adapt func(*Options) // of every member, unless nil
	trust []kgo.Opt      // by which the producer is let in
	began time.Time
	start Start  // of orders
	skip  []Skip // of orders

	mu        sync.Mutex // guards all below
	visible   map[place]bool
	acked     map[place]bool
	times     map[string]int  // publishes by idempotency key
	committed map[place]int64 // next, by topic and partition
	skipFrom  map[place]int64 // below it everything was checked
	commits   int
	passed    map[place]int64 // not acknowledged when a commit to there passed it
	keys      map[place]string
	rewound   map[place]bool // by topic and partition: a member told why it reads again
}

const testGroup = "bridge"

func newWorld(t *testing.T, brokers int, topics ...string) *world {
	t.Helper()
	return newWorldOn(t, fakekafka.Options{Brokers: brokers, Network: &kfake.VirtualNetwork{}}, topics...)
}

func newWorldOn(t *testing.T, o fakekafka.Options, topics ...string) *world {
	t.Helper()
	kafka, err := fakekafka.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, kafka: kafka, began: time.Now(), visible: map[place]bool{}, acked: map[place]bool{}, times: map[string]int{},
		committed: map[place]int64{}, skipFrom: map[place]int64{}, passed: map[place]int64{}, keys: map[place]string{}, rewound: map[place]bool{},
	}
	t.Cleanup(w.verdict)
	t.Cleanup(kafka.Close)
	for _, topic := range topics {
		if err := kafka.Create(topic, 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	kafka.Observe(w)
	return w
}

func (w *world) CommitSent(c fakekafka.Commit) {
	if c.ClientID != clientID {
		return // an operator's
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := place{topic: c.Topic, partition: c.Partition}
	for o := w.skipFrom[at]; o < c.Next; o++ {
		p := place{c.Topic, c.Partition, o}
		if !w.acked[p] {
			w.passed[p] = c.Next
		}
	}
	w.skipFrom[at] = max(w.skipFrom[at], c.Next)
}

func (w *world) CommitAccepted(c fakekafka.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := place{topic: c.Topic, partition: c.Partition}
	if c.Next < w.committed[at] && !w.rewound[at] && c.ClientID == clientID {
		w.t.Errorf("the commit of %s/%d went from %d to %d", c.Topic, c.Partition, w.committed[at], c.Next)
	}
	w.committed[at] = c.Next
	w.commits++
}

// verdict judges at the end, when the producer has told which offsets its
// records got; a member may read them earlier.
func (w *world) verdict() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, next := range w.passed {
		if w.visible[p] {
			w.t.Errorf("a commit of %s/%d to %d passed record %d, which nobody had acknowledged", p.topic, p.partition, next, p.offset)
			break
		}
	}
	for p := range w.keys {
		if !w.visible[p] {
			w.t.Errorf("record %v was published, but nobody wrote it or it was aborted", p)
			break
		}
	}
}

func (w *world) Assigned(fakekafka.Assignment) {}

// published notes the records of a request.
func (w *world) published(q *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range q.records {
		p := place{r.topic, r.partition, r.offset}
		w.times[r.key]++
		w.keys[p] = r.key
	}
}

func (w *world) acknowledged(q *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range q.records {
		w.acked[place{r.topic, r.partition, r.offset}] = true
	}
	if r := q.batch.Refusal; r != nil && r.Reason == message.Skipped {
		s := q.batch.Spans[0]
		for o := s.First; o < s.Next; o++ {
			w.acked[place{q.batch.Route, s.Partition, o}] = true
		}
	}
}

// produce writes n records to each partition of a topic.
func (w *world) produce(topic string, n, size int) {
	w.t.Helper()
	var records []*kgo.Record
	for i := range n {
		for p := range int32(3) {
			v := make([]byte, size)
			copy(v, fmt.Sprintf("%s/%d/%d", topic, p, i))
			records = append(records, &kgo.Record{Topic: topic, Partition: p, Value: v})
		}
	}
	p, err := w.kafka.Producer(append(w.trust, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(16<<10), kgo.MaxBufferedRecords(len(records)+1))...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer p.Close()
	if err := p.Produce(w.t.Context(), records...); err != nil {
		w.t.Fatal(err)
	}
	w.see(records)
}

func (w *world) see(records []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range records {
		w.visible[place{r.Topic, r.Partition, r.Offset}] = true
	}
}

// transaction writes one transaction to partition 0 of a topic.
func (w *world) transaction(topic string, commit bool, n int) {
	w.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Value: []byte("in a transaction")}
	}
	if err := w.kafka.Transaction(w.t.Context(), "writer", commit, records...); err != nil {
		w.t.Fatal(err)
	}
	if commit {
		w.see(records)
	}
}

// member is one process of the bridge, as far as Kafka is concerned.
type member struct {
	*Consumer
	w     *world
	link  *link.Link
	pub   *scriptedPublisher
	end   context.CancelFunc
	ended chan error

	mu     sync.Mutex // guards events
	events []fault.Event
}

func memberSizes() Sizes {
	return Sizes{
		Window: 4 * mib, FetchMaxBytes: 256 << 10, FetchMaxPartition: 64 << 10,
		SlabBytes: 64 << 10, InFlight: 4, Linger: 10 * time.Millisecond, PollEvery: 20 * time.Millisecond,
	}
}

// join starts a member with routes for the topics.
func (w *world) join(sizes Sizes, ordering Ordering, script func(*request) time.Duration, topics ...string) *member {
	w.t.Helper()
	m := &member{w: w, link: link.New(link.Distant(w.kafka.Dial)), ended: make(chan error, 1)}
	m.pub = &scriptedPublisher{acked: w.acknowledged, script: func(q *request) time.Duration {
		w.published(q)
		return script(q)
	}}
	o := Options{
		Brokers: w.kafka.Brokers(), Group: testGroup, Cluster: "test", SessionTimeout: 20 * time.Second,
		Dial: m.link.Dial, Sizes: sizes,
		Events: m.told,
	}
	if w.adapt != nil {
		w.adapt(&o)
	}
	for _, topic := range topics {
		o.Routes = append(o.Routes, Route{Topic: topic, Destination: "projects/p/topics/" + topic, Ordering: ordering})
		if topic == "orders" {
			r := &o.Routes[len(o.Routes)-1]
			r.Start, r.Skip = w.start, w.skip
		}
	}
	var err error
	if m.Consumer, err = New(o, m.pub); err != nil {
		w.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background()) //nolint:forbidigo // t.Context ends before the clean-up looks
	m.end = end
	go func() { m.ended <- m.Run(ctx) }()
	w.t.Cleanup(func() { m.stop() })
	return m
}

// stop ends the member and returns how long that took. Afterwards nothing may
// be in hand or in flight.
func (m *member) stop() time.Duration {
	m.w.t.Helper()
	began := time.Now()
	m.end()
	err := <-m.ended
	took := time.Since(began)
	m.ended <- err
	if err != nil {
		m.w.t.Errorf("Run: %v", err)
	}
	if s := m.Snapshot(); s.InHand != 0 {
		m.w.t.Errorf("%d bytes are in hand after the end", s.InHand)
	}
	if open := m.pub.open(); len(open) != 0 {
		m.w.t.Errorf("%d requests are open after the end", len(open))
	}
	return took
}

// gone lets what Run may leave behind, the client's close, come to its end: the
// process would be gone by now.
func (m *member) gone() {
	m.link.Kill()
	time.Sleep(5 * time.Minute)
}

// told notes an event. After a truncation, which the fake Kafka's answers about
// leader epochs feign whenever a partition moves, the commit may go back.
func (m *member) told(e fault.Event) {
	m.mu.Lock()
	m.events = append(m.events, e)
	m.mu.Unlock()
	if e.Kind == fault.Truncated {
		m.w.mu.Lock()
		m.w.rewound[place{topic: e.Topic, partition: e.Partition}] = true
		m.w.mu.Unlock()
	}
}

func (m *member) has(kind fault.Kind) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.events, func(e fault.Event) bool { return e.Kind == kind })
}

// within waits, in virtual time, until done.
func (w *world) within(limit time.Duration, what string, done func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !done() {
		if time.Since(began) > limit {
			w.t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(began)
}

// allCommitted reports whether the commits reach the log end everywhere.
func (w *world) allCommitted(topics ...string) func() bool {
	return func() bool {
		for _, topic := range topics {
			for p := range int32(3) {
				end := w.kafka.PartitionInfo(topic, p).HighWatermark
				w.mu.Lock()
				at := w.committed[place{topic: topic, partition: p}]
				w.mu.Unlock()
				if at != end {
					return false
				}
			}
		}
		return true
	}
}

func (w *world) countAcked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// wantAll checks that each visible record was published and acknowledged, and
// returns how many publishes were repeats.
func (w *world) wantAll() (repeats int) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.visible {
		if !w.acked[p] {
			w.t.Errorf("record %v was never acknowledged", p)
			break
		}
	}
	for _, n := range w.times {
		repeats += n - 1
	}
	if distinct := len(w.times); distinct != len(w.visible) {
		w.t.Errorf("%d distinct keys for %d records", distinct, len(w.visible))
	}
	return repeats
}

// spread answers after a delay that depends on the records alone.
func spread(limit time.Duration) func(*request) time.Duration {
	return func(q *request) time.Duration {
		s := q.batch.Spans[0]
		return time.Duration((s.First*7919+int64(s.Partition)*104729)%997) * limit / 997
	}
}

func never(*request) time.Duration { return -1 }

func topicIDText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
