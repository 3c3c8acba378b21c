//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// The servers are processes of their own, so that their work is not counted as
// the bridge's: this program, called with the server's name. A server first
// tells its addresses, then answers orders, one JSON value each, and ends with
// its input, that is with its parent.
const (
	kafkaRole  = "serve-kafka"
	pubsubRole = "serve-pubsub"
)

// timed marks topics whose records begin with the time they were produced.
const timed = "timed-"

// order is what the Pub/Sub server is asked to do, in the order of the fields.
type order struct {
	Create []string       // topics, full names
	Delay  *time.Duration // of every answer from now on
	Reset  bool           // forget all counts
	Times  bool           // answer quantiles, too
}

// counts is its answer.
type counts struct {
	Messages, Requests int64
	Timed              int // messages of timed topics
	Refused            int // requests that broke a limit of Pub/Sub
	P50, P99, Worst    time.Duration
}

// serveKafka runs three brokers. With a value size every partition is endless
// and holds the canned batch; else they hold what is produced, in memory.
func serveKafka(value int, in io.Reader, out io.Writer) error {
	o := fakekafka.Options{Brokers: 3}
	if value > 0 {
		o.Kfake = append(o.Kfake, kfake.SyntheticFetch(kfake.SyntheticBatch{Batch: cannedBatch(value)}))
	}
	c, err := fakekafka.Start(o)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := json.NewEncoder(out).Encode(c.Brokers()); err != nil {
		return fmt.Errorf("telling the addresses: %w", err)
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

func servePubSub(in io.Reader, out io.Writer) error {
	t := &tally{}
	s := fakepubsub.New(fakepubsub.Options{Stores: []fakepubsub.Store{t}})
	address, err := s.Start()
	if err != nil {
		return err
	}
	defer s.Close()
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for err = answers.Encode([]string{address}); err == nil; {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading an order: %w", err)
		}
		if err := s.CreateTopics(o.Create...); err != nil {
			return err
		}
		if o.Delay != nil {
			s.Script("", fakepubsub.Always(fakepubsub.Fault{Delay: *o.Delay}))
		}
		answer := t.take(o)
		answer.Refused = len(s.Violations())
		err = answers.Encode(answer)
	}
	return fmt.Errorf("answering: %w", err)
}

// tally is a store that only counts.
type tally struct {
	messages, requests atomic.Int64

	mu    sync.Mutex // guards times
	times []time.Duration
}

// Stored implements fakepubsub.Store.
func (t *tally) Stored(topic string, ms []fakepubsub.Message) {
	t.messages.Add(int64(len(ms)))
	t.requests.Add(1)
	if !strings.Contains(topic, timed) {
		return
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range ms {
		t.times = append(t.times, now.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(ms[i].Data)))))
	}
}

// Acknowledged does nothing: the answer follows Stored at once.
func (*tally) Acknowledged(string, []fakepubsub.Message) {}

func (t *tally) take(o order) counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.Reset {
		t.messages.Store(0)
		t.requests.Store(0)
		t.times = nil
	}
	c := counts{Messages: t.messages.Load(), Requests: t.requests.Load(), Timed: len(t.times)}
	if n := len(t.times); o.Times && n > 0 {
		slices.Sort(t.times)
		c.P50, c.P99, c.Worst = t.times[n/2], t.times[n*99/100], t.times[n-1]
	}
	return c
}

// server is a server as its parent sees it.
type server struct {
	name      string
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *json.Decoder
	addresses []string
}

func startServer(role string, value int) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	s := &server{name: role, cmd: exec.Command(self, role, strconv.Itoa(value))}
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("piping to %s: %w", role, err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("piping from %s: %w", role, err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", role, err)
	}
	s.out = json.NewDecoder(out)
	if err := s.out.Decode(&s.addresses); err != nil {
		s.close()
		return nil, fmt.Errorf("reading the addresses of %s: %w", role, err)
	}
	return s, nil
}

// ask gives the Pub/Sub server an order.
func (s *server) ask(o order) (c counts, err error) {
	if err := json.NewEncoder(s.in).Encode(o); err != nil {
		return c, fmt.Errorf("asking %s: %w", s.name, err)
	}
	if err := s.out.Decode(&c); err != nil {
		return c, fmt.Errorf("reading the answer of %s: %w", s.name, err)
	}
	if c.Refused > 0 {
		return c, fmt.Errorf("%d requests broke a limit of Pub/Sub: the figures are worth nothing", c.Refused)
	}
	return c, nil
}

func (s *server) close() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}
