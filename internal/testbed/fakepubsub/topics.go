package fakepubsub

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Stats counts what one topic has seen. InFlight is of now.
type Stats struct {
	Requests, Accepted int
	Refused            map[codes.Code]int // answered with an error; Canceled and DeadlineExceeded: the caller gave up
	Messages           int64              // stored, repeats included
	Bytes              int64              // of the requests stored
	MaxMessages        int                // of one request
	MaxBytes           int
	InFlight           int
	MaxInFlight        int
}

type topic struct {
	name     string
	script   atomic.Pointer[Script]
	inFlight atomic.Int64
	// forbidden is that nobody may publish, as TestIamPermissions tells.
	forbidden atomic.Bool

	storing sync.Mutex // held while stores are told, for order per topic

	mu            sync.Mutex // guards what follows
	attempts      map[uint64]int
	stats         Stats
	subscriptions []string
}

func newTopic(name string) *topic {
	return &topic{name: name, attempts: map[uint64]int{}, stats: Stats{Refused: map[codes.Code]int{}}}
}

func (t *topic) begin(d *decoded) {
	n := int(t.inFlight.Add(1))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Requests++
	t.stats.MaxInFlight = max(t.stats.MaxInFlight, n)
	t.stats.MaxMessages = max(t.stats.MaxMessages, len(d.messages))
	t.stats.MaxBytes = max(t.stats.MaxBytes, d.size)
}

func (t *topic) end(messages int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.stats.Refused[status.Code(err)]++
		return
	}
	t.stats.Accepted++
}

func (t *topic) store(stores []Store, d *decoded) {
	t.storing.Lock()
	for _, s := range stores {
		s.Stored(t.name, d.messages)
	}
	t.storing.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Messages += int64(len(d.messages))
	t.stats.Bytes += int64(d.size)
}

func (s *Server) topic(name string) *topic {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.topics[name]
}

// CreateTopics creates topics by full name; those that exist stay.
func (s *Server) CreateTopics(names ...string) error {
	for _, name := range names {
		if err := checkTopicName(name); err != nil {
			return err
		}
		s.mu.Lock()
		if s.topics[name] == nil {
			s.topics[name] = newTopic(name)
		}
		s.mu.Unlock()
	}
	return nil
}

// RemoveTopic forgets a topic, its script and its statistics.
func (s *Server) RemoveTopic(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.topics, name)
}

// Topics returns the full names of all topics, sorted.
func (s *Server) Topics() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.topics))
}

// Stats returns a topic's counts, zero when it does not exist.
func (s *Server) Stats(name string) Stats {
	t := s.topic(name)
	if t == nil {
		return Stats{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.stats
	st.Refused = maps.Clone(st.Refused)
	st.InFlight = int(t.inFlight.Load())
	return st
}

// CreateTopic is the RPC.
func (s *Server) CreateTopic(_ context.Context, req *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	if err := s.admin("CreateTopic", req.GetName()); err != nil {
		return nil, err
	}
	if s.topic(req.GetName()) != nil {
		return nil, status.Error(codes.AlreadyExists, "topic exists")
	}
	if err := s.CreateTopics(req.GetName()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return req, nil
}

// GetTopic is the RPC.
func (s *Server) GetTopic(_ context.Context, req *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	if err := s.admin("GetTopic", req.GetTopic()); err != nil {
		return nil, err
	}
	if s.topic(req.GetTopic()) == nil {
		return nil, status.Error(codes.NotFound, "topic "+req.GetTopic()+" not found")
	}
	return &pubsubpb.Topic{Name: req.GetTopic()}, nil
}

// ListTopics is the RPC; it answers in one page.
func (s *Server) ListTopics(_ context.Context, req *pubsubpb.ListTopicsRequest) (*pubsubpb.ListTopicsResponse, error) {
	if err := s.admin("ListTopics", req.GetProject()); err != nil {
		return nil, err
	}
	resp := &pubsubpb.ListTopicsResponse{}
	for _, name := range s.Topics() {
		if strings.HasPrefix(name, req.GetProject()+"/") {
			resp.Topics = append(resp.Topics, &pubsubpb.Topic{Name: name})
		}
	}
	return resp, nil
}

func (s *Server) admin(method, resource string) error {
	if f := s.refuse.Load(); f != nil {
		if c := (*f)(method, resource); c != codes.OK {
			return status.Error(c, "scripted")
		}
	}
	return nil
}
