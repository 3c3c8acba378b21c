package fakepubsub_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

func TestFaults(t *testing.T) {
	unavailable := fakepubsub.Fault{Code: codes.Unavailable}
	tests := []struct {
		name   string
		script fakepubsub.Script
		want   []codes.Code // of requests with keys a, b, a, b
		stored int
	}{
		{"none", nil, []codes.Code{0, 0, 0, 0}, 4},
		{"always", fakepubsub.Always(unavailable), []codes.Code{14, 14, 14, 14}, 0},
		{"first of all", fakepubsub.First(1, unavailable), []codes.Code{14, 0, 0, 0}, 3},
		{"first attempt of each", fakepubsub.Attempts(1, unavailable), []codes.Code{14, 14, 0, 0}, 2},
		{"stored, then error", fakepubsub.Attempts(1, fakepubsub.Fault{Code: codes.DeadlineExceeded, Stored: true}), []codes.Code{4, 4, 0, 0}, 4},
		{"schema", fakepubsub.Refuse(func(m *fakepubsub.Message) bool { return bytes.Equal(m.Key(), []byte("b")) }), []codes.Code{0, 3, 0, 3}, 2},
		{"permission", fakepubsub.Always(fakepubsub.Fault{Code: codes.PermissionDenied}), []codes.Code{7, 7, 7, 7}, 0},
		{"quota", fakepubsub.Quota(0, 3), []codes.Code{0, 0, 0, 8}, 3},
		{"connection cut", fakepubsub.First(1, fakepubsub.Fault{Cut: true, Stored: true}), []codes.Code{14, 0, 0, 0}, 4},
		{"joined", fakepubsub.Join(fakepubsub.First(1, unavailable), fakepubsub.Always(fakepubsub.Fault{Code: codes.Aborted})), []codes.Code{14, 10, 10, 10}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t)
			b.Script(orders, tt.script)
			var got []codes.Code
			for _, key := range []string{"a", "b", "a", "b"} {
				_, err := b.publish(t.Context(), orders, keyed(key))
				got = append(got, status.Code(err))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if n := len(b.kept.Of(orders)); n != tt.stored {
				t.Errorf("%d stored, want %d", n, tt.stored)
			}
		})
	}
}

func TestWrongNumberOfIDs(t *testing.T) {
	for _, ids := range []int{-1, 1, -5} {
		t.Run(fmt.Sprint(ids), func(t *testing.T) {
			b := newBed(t)
			b.Script("", fakepubsub.Always(fakepubsub.Fault{Ids: ids}))
			resp, err := b.publish(t.Context(), orders, keyed("a"), keyed("b"))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(resp.GetMessageIds()), max(0, 2+ids); got != want {
				t.Errorf("%d ids, want %d", got, want)
			}
		})
	}
}

func TestIDsAreUnique(t *testing.T) {
	b := newBed(t)
	seen := map[string]bool{}
	for range 3 {
		resp, err := b.publish(t.Context(), orders, keyed("a"), keyed("b"))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range resp.GetMessageIds() {
			if seen[id] {
				t.Errorf("id %s came twice", id)
			}
			seen[id] = true
		}
	}
}

// TestHangEndsWithCallerAndWithServer: a call that is never answered ends when
// its caller gives up, and Close does not wait for those that did not.
func TestHangEndsWithCallerAndWithServer(t *testing.T) {
	b := newBed(t)
	b.Script(orders, fakepubsub.Always(fakepubsub.Fault{Hang: true, Stored: true}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.publish(ctx, orders, keyed("a")); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	if n := len(b.kept.Of(orders)); n != 1 {
		t.Errorf("%d stored, want 1", n)
	}
	hung := make(chan struct{})
	b.Script(orders, func(*fakepubsub.Request) fakepubsub.Fault { close(hung); return fakepubsub.Fault{Hang: true} })
	done := make(chan error, 1)
	go func() { _, err := b.publish(t.Context(), orders, keyed("b")); done <- err }()
	<-hung
	b.GoAway() // a graceful stop alone would wait for the hanging call
	b.Close()
	if err := <-done; err == nil {
		t.Error("a hanging call was answered")
	}
}

// acks counts Acknowledged beside Stored.
type acks struct {
	mu            sync.Mutex
	stored, acked int
}

func (a *acks) Stored(_ string, ms []fakepubsub.Message) {
	a.mu.Lock()
	a.stored += len(ms)
	a.mu.Unlock()
}

func (a *acks) Acknowledged(_ string, ms []fakepubsub.Message) {
	a.mu.Lock()
	a.acked += len(ms)
	a.mu.Unlock()
}

func TestAcknowledgedOnlyWithGoodAnswer(t *testing.T) {
	tests := []struct {
		name  string
		fault fakepubsub.Fault
		acked int
	}{
		{"healthy", fakepubsub.Fault{}, 1},
		{"held, then answered", fakepubsub.Fault{Hold: time.Millisecond}, 1},
		{"error", fakepubsub.Fault{Stored: true, Code: codes.Internal}, 0},
		{"too few ids", fakepubsub.Fault{Ids: -1}, 0},
		{"cut", fakepubsub.Fault{Stored: true, Cut: true}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &acks{}
			s := fakepubsub.New(fakepubsub.Options{Stores: []fakepubsub.Store{a}})
			b := serve(t, s)
			s.Script("", fakepubsub.Always(tt.fault))
			_, _ = b.publish(t.Context(), orders, keyed("a"))
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.stored != 1 || a.acked != tt.acked {
				t.Errorf("stored %d, acknowledged %d, want 1 and %d", a.stored, a.acked, tt.acked)
			}
		})
	}
}

// TestChance: faults drawn by hash do not depend on the order of requests, and
// come as often as asked.
func TestChance(t *testing.T) {
	draw := func(seed uint64, key string, attempt int) float64 {
		return fakepubsub.Draw(seed, &fakepubsub.Request{Topic: orders, Key: key, Attempt: attempt})
	}
	var below int
	for i := range 20_000 {
		if draw(1, fmt.Sprint(i), 1) < 0.25 {
			below++
		}
	}
	if below < 4_700 || below > 5_300 {
		t.Errorf("%d of 20,000 draws below 0.25, want about 5,000", below)
	}
	base := draw(1, "k", 1)
	if draw(1, "k", 1) != base {
		t.Error("one request draws two numbers")
	}
	if draw(2, "k", 1) == base || draw(1, "l", 1) == base || draw(1, "k", 2) == base {
		t.Error("seed, key or attempt makes no difference")
	}
}

func TestGoAwayAndCutAllKeepServing(t *testing.T) {
	b := newBed(t)
	for i, breakIt := range []func(){func() {}, b.GoAway, b.CutAll} {
		breakIt()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		// As every client must: the first call may meet the old connection.
		_, err := pubsubpb.NewPublisherClient(b.conn).Publish(ctx, &pubsubpb.PublishRequest{
			Topic: orders, Messages: []*pubsubpb.PubsubMessage{keyed(fmt.Sprint(i))},
		}, grpc.WaitForReady(true))
		cancel()
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Errorf("after break %d: %v", i, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := pubsubpb.NewPublisherClient(b.conn).Publish(ctx, &pubsubpb.PublishRequest{
		Topic: orders, Messages: []*pubsubpb.PubsubMessage{keyed("end")},
	}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
}

func TestTopicRemovedAndCreatedAgain(t *testing.T) {
	b := newBed(t)
	b.RemoveTopic(orders)
	if _, err := b.publish(t.Context(), orders, keyed("a")); status.Code(err) != codes.NotFound {
		t.Errorf("removed: %v, want NotFound", err)
	}
	c := pubsubpb.NewPublisherClient(b.conn)
	if _, err := c.CreateTopic(t.Context(), &pubsubpb.Topic{Name: orders}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTopic(t.Context(), &pubsubpb.Topic{Name: orders}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("created twice: %v, want AlreadyExists", err)
	}
	if _, err := b.publish(t.Context(), orders, keyed("a")); err != nil {
		t.Errorf("created again: %v", err)
	}
	if b.Missing() != 1 {
		t.Errorf("%d requests missed the topic, want 1", b.Missing())
	}
}

func TestAdminCalls(t *testing.T) {
	b := newBed(t)
	c := pubsubpb.NewPublisherClient(b.conn)
	list, err := c.ListTopics(t.Context(), &pubsubpb.ListTopicsRequest{Project: "projects/p"})
	if err != nil || len(list.GetTopics()) != 1 || list.GetTopics()[0].GetName() != orders {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, err := c.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: "projects/p/topics/absent"}); status.Code(err) != codes.NotFound {
		t.Errorf("absent topic: %v, want NotFound", err)
	}
	b.RefuseAdmin(func(method, _ string) codes.Code {
		if method == "GetTopic" {
			return codes.PermissionDenied
		}
		return codes.OK
	})
	if _, err := c.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: orders}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("refused: %v, want PermissionDenied", err)
	}
	if _, err := b.publish(t.Context(), orders, keyed("a")); err != nil {
		t.Errorf("publishing although reading is refused: %v", err)
	}
}

func TestStats(t *testing.T) {
	b := newBed(t)
	b.Script(orders, fakepubsub.First(2, fakepubsub.Fault{Code: codes.Aborted}))
	for range 3 {
		_, _ = b.publish(t.Context(), orders, keyed("a"), keyed("b"))
	}
	st := b.Stats(orders)
	if st.Requests != 3 || st.Accepted != 1 || st.Refused[codes.Aborted] != 2 || st.Messages != 2 ||
		st.MaxMessages != 2 || st.MaxInFlight != 1 || st.InFlight != 0 || st.MaxBytes == 0 {
		t.Errorf("got %+v", st)
	}
}

func TestKeys(t *testing.T) {
	b := newBed(t)
	other := keyed("a")
	gap := keyed("b")
	gap.Attributes["kafka_offset_gap"] = "3"
	for _, m := range []*pubsubpb.PubsubMessage{keyed("a"), keyed("b"), gap, keyed("a")} {
		if _, err := b.publish(t.Context(), orders, m); err != nil {
			t.Fatal(err)
		}
	}
	if m, d, r, x := b.keys.Totals(); m != 4 || d != 2 || r != 2 || x != 0 {
		t.Errorf("messages, distinct, repeats, mixed = %d %d %d %d, want 4 2 2 0", m, d, r, x)
	}
	other.Data = []byte("changed")
	if _, err := b.publish(t.Context(), orders, other); err != nil {
		t.Fatal(err)
	}
	if e := b.keys.Of(orders)[fakepubsub.KeySum([]byte("a"))]; !e.Mixed || e.Count != 3 {
		t.Errorf("key with changed data is %+v, want 3 copies, mixed", e)
	}
	if e := b.keys.Of(orders)[fakepubsub.KeySum([]byte("b"))]; e.Mixed {
		t.Error("a wider gap made two copies different")
	}
}

func TestTLS(t *testing.T) {
	https := httptest.NewTLSServer(nil) // its certificate serves ours
	defer https.Close()
	s := fakepubsub.New(fakepubsub.Options{TLS: &tls.Config{Certificates: https.TLS.Certificates, NextProtos: []string{"h2"}}})
	b := serve(t, s, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: https.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com",
	})))
	s.Script("", fakepubsub.First(1, fakepubsub.Fault{Cut: true}))
	if _, err := b.publish(t.Context(), orders, keyed("a")); status.Code(err) != codes.Unavailable {
		t.Errorf("cut under TLS: %v, want Unavailable", err)
	}
	if _, err := b.publish(t.Context(), orders, keyed("a")); err != nil {
		t.Error(err)
	}
}
