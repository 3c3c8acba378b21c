package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

// shelf is a Store that fails as a test wants.
type shelf struct {
	fail func(attempt int) error // nil: it stores

	mu     sync.Mutex // guards what follows
	puts   int
	values map[string][]byte
}

func (s *shelf) Put(ctx context.Context, name string, value []byte, sum [sha256.Size]byte) (string, error) {
	s.mu.Lock()
	s.puts++
	n := s.puts
	s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(n); err != nil {
			return "", err
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if sha256.Sum256(value) != sum {
		return "", errors.New("the sum is not that of the value")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string][]byte{}
	}
	s.values[name] = bytes.Clone(value)
	return "gs://bucket/" + name, nil
}

func storing(s Store) Route {
	r := parking()
	r.Oversize, r.Store = StoreOversize, s
	return r
}

// oversize is a batch of one record, offset 7, that no request can carry.
func oversize(ordered bool) (*message.Batch, []byte) {
	value := strings.Repeat("v", message.MaxRequest)
	b := newBatch(ordered, 7, 8, func(int) string { return value })
	return b, []byte(value)
}

const oversizeKey = "v1/msk/orders/AQAAAAAAAAAAAAAAAAAAAA/3/5/7"

// wantClaim checks what the destination has: one claim to the value of oversize.
func (b *bench) wantClaim(t *testing.T, s *shelf, value []byte, orderingKey string) {
	t.Helper()
	stored := slices.DeleteFunc(b.stored.Of(destination), func(k fakepubsub.Kept) bool { return k.Attributes["idempotency_key"] != oversizeKey })
	if len(stored) != 1 || len(b.stored.Of(deadLetter)) != 0 {
		t.Fatalf("%d stored, %d parked", len(stored), len(b.stored.Of(deadLetter)))
	}
	if !bytes.Equal(s.values[oversizeKey], value) {
		t.Errorf("the store has %d bytes of %d under the key", len(s.values[oversizeKey]), len(value))
	}
	sum := sha256.Sum256(value)
	for name, want := range map[string]string{
		"kafka_value_url": "gs://bucket/" + oversizeKey, "kafka_value_size": strconv.Itoa(len(value)),
		"kafka_value_sha256": hex.EncodeToString(sum[:]), "idempotency_key": oversizeKey, "kafka_key": "k",
	} {
		if got := stored[0].Attributes[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(stored[0].Data) != 0 || stored[0].OrderingKey != orderingKey {
		t.Errorf("%d bytes of data, ordering key %q", len(stored[0].Data), stored[0].OrderingKey)
	}
}

func TestClaim(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{}
			b := newBench(t, storing(s))
			batch, value := oversize(ordered)
			if err := mustEnd(t, b.publish(t.Context(), batch), time.Second); err != nil {
				t.Fatal(err)
			}
			b.wantClaim(t, s, value, map[bool]string{true: "orders/3"}[ordered])
			if len(batch.Slab) > 1<<10 {
				t.Errorf("the batch still has %d bytes", len(batch.Slab))
			}
			if r := b.route(); r.Stored != 1 || r.Published != 1 || r.State != Running {
				t.Errorf("snapshot %+v", r)
			}
		})
	}
}

// enveloped is a batch of one record, offset 7, in an envelope for a JSON column.
func enveloped(key, value []byte) *message.Batch {
	e := message.NewEncoder("msk", "orders", destination, false)
	e.Wrap(message.EnvelopeJSON)
	r := message.Record{Key: key, Value: value, TimestampMs: -1, Offset: 7, LeaderEpoch: 5}
	_, refusal := e.Measure(e.Partition([16]byte{1}, 3), &r)
	return &message.Batch{
		Route: "orders", Head: e.Head(), Slab: e.AppendTo(nil), Starts: []int32{0}, Refusal: refusal,
		Spans: []message.Span{{Partition: 3, First: 7, Last: 7, Next: 8, LeaderEpoch: 5, Records: 1}},
	}
}

// A claim of an envelope is an envelope without its value: a subscription with
// the table's schema would not take an empty message. A value that is no JSON is
// stored all the same, since nothing else could hold it.
func TestClaimOfAnEnvelope(t *testing.T) {
	for name, value := range map[string]string{
		"json": `"` + strings.Repeat("v", message.MaxRequest) + `"`, "not json": strings.Repeat("v", message.MaxRequest),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shelf{}
				b := newBench(t, storing(s))
				if err := mustEnd(t, b.publish(t.Context(), enveloped([]byte("k"), []byte(value))), time.Second); err != nil {
					t.Fatal(err)
				}
				stored := b.stored.Of(destination)
				if len(stored) != 1 || string(s.values[oversizeKey]) != value || stored[0].Attributes[message.AttrValueURL] != "gs://bucket/"+oversizeKey {
					t.Fatalf("%d stored, %d bytes in the store", len(stored), len(s.values[oversizeKey]))
				}
				want := `{"idempotency_key":"` + oversizeKey + `","kafka_cluster":"msk","kafka_topic":"orders","kafka_topic_id":"AQAAAAAAAAAAAAAAAAAAAA",` +
					`"kafka_partition":3,"kafka_offset":7,"kafka_leader_epoch":5,"kafka_timestamp":null,"kafka_date":"1970-01-01","kafka_key":"aw==",` +
					`"is_tombstone":false,"kafka_offset_gap":0,"headers":[],"value":null}`
				if got := string(stored[0].Data); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

// Where key and headers alone are too much for an envelope, so is the claim: the
// record is parked with its value, and never sent to be refused.
func TestClaimThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		b := newBench(t, storing(s))
		batch := enveloped(bytes.Repeat([]byte("k"), 8_000_000), []byte("17"))
		if err := mustEnd(t, b.publish(t.Context(), batch), time.Second); err != nil {
			t.Fatal(err)
		}
		parked := b.stored.Of(deadLetter)
		if len(parked) != 1 || len(b.stored.Of(destination)) != 0 {
			t.Fatalf("%d parked, %d delivered", len(parked), len(b.stored.Of(destination)))
		}
		if k := parked[0]; string(k.Data) != "17" || k.Attributes[message.AttrParkedReason] != string(message.TooLarge) {
			t.Errorf("parked %q as %s", k.Data, k.Attributes[message.AttrParkedReason])
		}
	})
}

// A store that fails is tried again for ever, and nothing is published before
// it has the value.
func TestStoreFails(t *testing.T) {
	operator := fault.Operator("create bucket b", errors.New("no such bucket"))
	tests := []struct {
		name   string
		err    error
		state  State
		reason string
		last   string
	}{
		{"for a while", errors.New("connection reset"), Retrying, "", "store: connection reset"},
		{"what it has is something else", errors.New("5 bytes, want 10"), Retrying, "", "store: 5 bytes, want 10"},
		{"until an operator acts", operator, Held, "store: create bucket b", "store: create bucket b: no such bucket"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := time.Now().Add(5 * time.Minute)
				s := &shelf{fail: func(int) error {
					if time.Now().Before(broken) {
						return tt.err
					}
					return nil
				}}
				b := newBench(t, storing(s))
				batch, value := oversize(false)
				result := b.publish(t.Context(), batch)
				time.Sleep(4 * time.Minute)
				synctest.Wait()
				if r := b.route(); r.State != tt.state || r.Reason != tt.reason || r.LastError != tt.last || r.Requests != 0 {
					t.Errorf("snapshot %+v", r)
				}
				if !batch.Stalled() {
					t.Error("the batch is not stalled: a rebalance would wait for it")
				}
				other := b.publish(t.Context(), newBatch(false, 10, 20, nil))
				if tt.state == Retrying { // its neighbours go on
					if err := mustEnd(t, other, time.Second); err != nil {
						t.Error(err)
					}
				}
				if err := mustEnd(t, result, 2*time.Minute); err != nil {
					t.Fatal(err)
				}
				if tt.state == Retrying {
					b.wantClaim(t, s, value, "")
				} else if err := mustEnd(t, other, time.Second); err != nil {
					t.Error(err)
				}
				if r := b.route(); r.State != Running || r.Stored != 1 {
					t.Errorf("snapshot %+v", r)
				}
			})
		})
	}
}

// An upload is cut off at its limit and with its context, and may still read
// the slab then.
func TestStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hung{}
		b := newBench(t, storing(s))
		batch, _ := oversize(false)
		ctx, cancel := context.WithCancel(t.Context())
		result := b.publish(ctx, batch)
		time.Sleep(storeTimeout + time.Minute)
		synctest.Wait()
		if n := s.begun; n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		cancel()
		if err := mustEnd(t, result, time.Millisecond); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if batch.Slab != nil {
			t.Error("the slab may be reused")
		}
	})
}

// hung is a Store that never answers.
type hung struct{ begun int }

func (h *hung) Put(ctx context.Context, _ string, _ []byte, _ [sha256.Size]byte) (string, error) {
	h.begun++
	<-ctx.Done()
	return "", fmt.Errorf("writing: %w", ctx.Err())
}

// A claim is published like any message, and stored once.
func TestClaimIsRetriedAndParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		b := newBench(t, storing(s))
		b.server.Script(destination, fakepubsub.First(3, fakepubsub.Fault{Code: codes.Unavailable}))
		batch, value := oversize(false)
		if err := mustEnd(t, b.publish(t.Context(), batch), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.wantClaim(t, s, value, "")
		if s.puts != 1 {
			t.Errorf("stored %d times", s.puts)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, storing(&shelf{}))
		b.server.Script(destination, poison(7))
		batch, value := oversize(false)
		if err := mustEnd(t, b.publish(t.Context(), batch), time.Minute); err != nil {
			t.Fatal(err)
		}
		parked := b.stored.Of(deadLetter)
		if len(parked) != 1 || parked[0].Attributes["kafka_value_size"] != strconv.Itoa(len(value)) || parked[0].Attributes["mskbridge_reason"] != "refused" {
			t.Errorf("parked %v", parked)
		}
	})
}

func TestOversizePolicies(t *testing.T) {
	tests := []struct {
		name  string
		route Route
		parks bool
	}{
		{"park", parking(), true},
		{"park, though poison holds", Route{Topic: "orders", Destination: destination, DeadLetter: deadLetter, HoldPoison: true}, true},
		{"park without a dead-letter topic", Route{Topic: "orders", Destination: destination}, false},
		{"hold", Route{Topic: "orders", Destination: destination, DeadLetter: deadLetter, Oversize: HoldOversize}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.route)
				batch, _ := oversize(false)
				ctx, cancel := context.WithCancel(t.Context())
				result := b.publish(ctx, batch)
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := slices.Equal(b.offsets(deadLetter), []int{7}); got != tt.parks {
					t.Errorf("parked: %v, want %v", got, tt.parks)
				}
				s := b.route()
				want := "record 3/7 cannot be published (too_large: a request with it alone has"
				if held := s.State == Held && strings.HasPrefix(s.Reason, want) && strings.HasSuffix(s.Reason, "and on_oversize park"); held == tt.parks {
					t.Errorf("snapshot %+v", s)
				}
				cancel()
				<-result
			})
		})
	}
}

func TestStoreIsNeeded(t *testing.T) {
	_, err := New(t.Context(), Options{Emulator: "passthrough:///x", Routes: []Route{{Topic: "orders", Destination: destination, Oversize: StoreOversize}}})
	if err == nil || err.Error() != "building routes: topic orders has no store" {
		t.Errorf("error %v", err)
	}
}
