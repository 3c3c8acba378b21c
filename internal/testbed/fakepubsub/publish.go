package fakepubsub

import (
	"context"
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

var requests = sync.Pool{New: func() any { return new(decoded) }}

// publish handles one encoded PublishRequest and returns the encoded response.
func (s *Server) publish(ctx context.Context, b []byte) ([]byte, error) {
	d := requests.Get().(*decoded)
	defer requests.Put(d)
	malformed := d.decode(b)
	name := string(d.topic)
	if err := checkTopicName(name); err != nil {
		return nil, s.violation(name, err)
	}
	t := s.topic(name)
	if t == nil {
		s.missing.Add(1)
		return nil, status.Error(codes.NotFound, "topic "+name+" not found")
	}
	t.begin(d)
	defer t.inFlight.Add(-1)
	err := malformed
	if err == nil {
		err = d.check()
	}
	var refusal error
	if err != nil {
		refusal = s.violation(name, err)
	}
	body, err := s.handle(ctx, t, d, refusal)
	t.end(len(d.messages), err)
	return body, err
}

// handle plays the fault of the request. refusal, when set, is what the limits
// say; it takes the place of storing.
func (s *Server) handle(ctx context.Context, t *topic, d *decoded, refusal error) ([]byte, error) {
	f := s.decide(t, d)
	if err := wait(ctx, f.Delay); err != nil {
		return nil, err
	}
	if f.ends() {
		return nil, s.fail(ctx, f)
	}
	if refusal != nil {
		return nil, refusal
	}
	t.store(s.opts.Stores, d)
	if err := wait(ctx, f.Hold); err != nil {
		return nil, err
	}
	if f.Cut || f.Hang || f.Code != codes.OK {
		return nil, s.fail(ctx, f)
	}
	if !f.refuses() {
		for _, st := range s.opts.Stores {
			st.Acknowledged(t.name, d.messages)
		}
	}
	return s.ids(max(0, len(d.messages)+f.Ids)), nil
}

// decide asks the topic's script, else the server's.
func (s *Server) decide(t *topic, d *decoded) Fault {
	script := t.script.Load()
	if script == nil {
		script = s.script.Load()
	}
	if script == nil || len(d.messages) == 0 {
		return Fault{}
	}
	key := d.messages[0].Key()
	return (*script)(&Request{
		Topic: t.name, Key: string(key), Attempt: t.attempt(key),
		Bytes: d.size, Messages: d.messages,
	})
}

// fail plays the end of a faulted request.
func (s *Server) fail(ctx context.Context, f Fault) error {
	switch {
	case f.Cut:
		cut(ctx)
		return status.Error(codes.Unavailable, "connection cut")
	case f.Hang:
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	default:
		return status.Error(f.Code, "scripted: "+f.Text)
	}
}

// wait blocks for d, or until the caller gave up.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// ids encodes a PublishResponse with n fresh ids.
func (s *Server) ids(n int) []byte {
	next := s.lastID.Add(uint64(n)) - uint64(n)
	body := make([]byte, 0, n*18)
	var id [20]byte
	for range n {
		next++
		text := strconv.AppendUint(id[:0], 10_000_000_000_000_000+next, 10)
		body = protowire.AppendTag(body, 1, protowire.BytesType)
		body = protowire.AppendBytes(body, text)
	}
	return body
}

var hashSeed = maphash.MakeSeed()

// attempt counts the requests that began with key, this one included. Only
// their hashes are kept.
func (t *topic) attempt(key []byte) int {
	h := maphash.Bytes(hashSeed, key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts[h]++
	return t.attempts[h]
}
