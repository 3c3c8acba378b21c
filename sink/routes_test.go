package sink

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
)

func TestSetRoutesKeepsWhatIsAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, parking())
		b.server.Script(destination, always(codes.NotFound))
		result := b.publish(t.Context(), newBatch(false, 0, 10, nil))
		time.Sleep(time.Second)
		if s := b.route(); s.State != Held {
			t.Fatalf("state %v, want held", s.State)
		}
		more := Route{Topic: "payments", Destination: "projects/p/topics/payments"}
		if err := b.SetRoutes([]Route{more, parking()}); err != nil {
			t.Fatal(err)
		}
		s := b.Snapshot().Routes
		if len(s) != 2 || s[0].Topic != "payments" || s[1].State != Held || s[1].Requests == 0 {
			t.Errorf("%+v", s)
		}
		b.server.Script(destination, nil)
		if err := mustEnd(t, result, time.Minute); err != nil {
			t.Error(err)
		}
		if s := b.Snapshot().Routes[1]; s.Published != 10 || s.State != Running {
			t.Errorf("%+v", s)
		}
	})
}

func TestSetRoutesChangesAndRemoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Route{Topic: "orders", Destination: destination})
		if err := mustEnd(t, b.publish(t.Context(), newBatch(false, 0, 3, nil)), time.Second); err != nil {
			t.Fatal(err)
		}
		if err := b.SetRoutes([]Route{parking()}); err != nil {
			t.Fatal(err)
		}
		if s := b.route(); s.Published != 0 {
			t.Errorf("%+v, want a route that is new", s)
		}
		b.server.Script(destination, poison(4))
		if err := mustEnd(t, b.publish(t.Context(), newBatch(false, 3, 6, nil)), time.Second); err != nil {
			t.Fatal(err)
		}
		if got := b.offsets(deadLetter); len(got) != 1 || got[0] != 4 {
			t.Errorf("parked %v, want 4", got)
		}
		if err := b.SetRoutes([]Route{parking(), parking()}); err == nil || len(b.Snapshot().Routes) != 1 {
			t.Errorf("a topic twice: %v, %d routes", err, len(b.Snapshot().Routes))
		}
		if err := b.SetRoutes(nil); err != nil {
			t.Fatal(err)
		}
		if err := mustEnd(t, b.publish(t.Context(), newBatch(false, 6, 7, nil)), time.Second); err == nil {
			t.Error("published a batch without a route")
		}
	})
}
