//go:build synctests

package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

func TestReplayOfACompactedLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		if err := w.kafka.Create("orders", 1, map[string]string{"cleanup.policy": "compact", "segment.bytes": "1024", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0"}); err != nil {
			t.Fatal(err)
		}
		p, err := w.kafka.Producer()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for i := range 60 {
			r := &kgo.Record{Topic: "orders", Key: []byte{byte(min(i, 1+i%7))}, Value: make([]byte, 200)}
			if err := p.Produce(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		w.kafka.Compact()
		done, pub, err := w.again(t.Context(), Range{To: 60}, nil, spread(0))
		if err != nil {
			t.Fatal(err)
		}
		got, part := offsetsOfAll(pub), done.Partitions[0]
		if part.Next != 60 || part.Holes == 0 || part.Holes+part.Records != 60 || int64(len(got)) != part.Records {
			t.Errorf("%+v, %d published, want 60 offsets to be records or holes", part, len(got))
		}
	})
}

// A log may end in offsets that nothing was left of: the replay ends all the same.
func TestReplayOfALogWhoseTailIsEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.produce("orders", 100, 10)
		w.kafka.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.kafka.KeepControl()
			f := req.(*kmsg.FetchRequest)
			if f.Topics[0].Partitions[0].FetchOffset < 100 {
				return nil, nil, false
			}
			time.Sleep(500 * time.Millisecond)
			resp := f.ResponseKind().(*kmsg.FetchResponse)
			topic, part := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
			topic.Topic, topic.TopicID = f.Topics[0].Topic, f.Topics[0].TopicID
			part.HighWatermark, part.LastStableOffset, part.LogStartOffset = 150, 150, 0
			topic.Partitions = append(topic.Partitions, part)
			resp.Topics = append(resp.Topics, topic)
			return resp, nil, true
		})
		w.kafka.ControlKey(kmsg.ListOffsets.Int16(), longer(w.kafka, 150))
		done, pub, err := w.again(t.Context(), Range{To: 150}, nil, spread(0))
		want := ReplayedPartition{End: 150, Next: 150, Records: 100, Bytes: 1000, Holes: 50, Silent: 50}
		if err != nil || done.Partitions[0] != want || len(offsetsOfAll(pub)) != 100 {
			t.Errorf("%+v, %v, want %+v", done, err, want)
		}
	})
}

// longer answers that a log reaches to end.
func longer(k *fakekafka.Cluster, end int64) func(kmsg.Request) (kmsg.Response, error, bool) {
	return func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		l := req.(*kmsg.ListOffsetsRequest)
		resp := l.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, asked := range l.Topics {
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = asked.Topic
			for _, p := range asked.Partitions {
				part := kmsg.NewListOffsetsResponseTopicPartition()
				if part.Partition, part.Offset = p.Partition, 0; p.Timestamp == -1 {
					part.Offset = end
				}
				topic.Partitions = append(topic.Partitions, part)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	}
}

// Memory stays bounded while the destination takes nothing, however long.
func TestReplayReadsNoMoreThanItsShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.produce("orders", 8000, 1000)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		var most int64
		_, _, err := w.again(ctx, Range{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}, func(o *ReplayOptions) {
			o.Sizes.Window = mib
			o.Progress = func(r *Replayed) {
				var bytes int64
				for _, p := range r.Partitions {
					bytes += p.Bytes + p.Records*messageOverhead
				}
				most = max(most, bytes)
			}
		}, never)
		if err == nil || most == 0 || most > mib {
			t.Errorf("%v with %d bytes read, want at most half the window and three fetches", err, most)
		}
	})
}

// Leaders move and retention goes on while a long replay runs.
func TestReplayGoesOnWhileTheClusterChanges(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(w *world) error
		gone   int64
	}{
		{"the leader moves", func(w *world) error {
			return w.kafka.MoveTopicPartition("orders", 0, (w.kafka.PartitionInfo("orders", 0).Leader+1)%3)
		}, 0},
		{"retention passes the position", func(w *world) error { return w.kafka.DeleteRecords("orders", 0, 900) }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, 3, "orders")
				w.produce("orders", 1000, 100)
				time.AfterFunc(3*time.Second, func() {
					if err := tt.change(w); err != nil {
						t.Error(err)
					}
				})
				done, pub, err := w.again(t.Context(), Range{To: 1000}, func(o *ReplayOptions) {
					o.Rate = 100
					o.Sizes.FetchMaxPartition = 1 << 10
				}, spread(0))
				if err != nil {
					t.Fatal(err)
				}
				part := done.Partitions[0]
				if part.Records+part.Gone != 1000 || part.Gone < tt.gone || part.Next != 1000 || part.Holes != 0 {
					t.Errorf("%+v", part)
				}
				if got := offsetsOfAll(pub); int64(len(got)) != part.Records || got[len(got)-1] != 999 {
					t.Errorf("%d published of %d", len(got), part.Records)
				}
			})
		})
	}
}

func TestReplayEndsWhenItsTopicIsAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, "orders")
		w.produce("orders", 1000, 10)
		time.AfterFunc(5*time.Second, func() {
			if err := errors.Join(w.kafka.DeleteTopic("orders"), w.kafka.Create("orders", 3, nil)); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		done, _, err := w.again(t.Context(), everything(0), func(o *ReplayOptions) {
			o.Rate = 50
			o.Sizes.FetchMaxPartition = 1 << 10
		}, spread(0))
		if err == nil || done == nil || time.Since(began) > time.Minute {
			t.Errorf("%+v, %v after %v", done, err, time.Since(began))
		}
		t.Log(err)
	})
}
