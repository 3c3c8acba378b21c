//go:build integration && unix

package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
	"github.com/mskbridge/mskbridge/internal/testbed/realkafka"
)

// TestHeldRoutes has one route without its Pub/Sub topic and one without
// permission. Both are held and named within 30 s, nothing of them is committed
// and the others run; once mended, both deliver everything.
func TestHeldRoutes(t *testing.T) {
	s := newScene(t, broker(t, realkafka.Version4), topics(t))
	missing, refused := s.createTopic(s.group+"-missing"), s.createTopic(s.group+"-refused")
	s.settings["BRIDGE_TOPICS"] += "," + missing + "," + refused
	s.toFake()
	s.createDestination(s.destination(refused))
	s.fake.Script(s.destination(refused), fakepubsub.Always(fakepubsub.Fault{Code: codes.PermissionDenied, Text: "not authorized"}))
	for n := range int32(300) {
		for _, topic := range []string{missing, refused} {
			s.produce(&kgo.Record{Topic: topic, Partition: n % partitions, Value: []byte("waits")})
		}
	}
	b := s.start("one")
	began := time.Now()
	stop := s.run(records(t)/3, perSecond(t))
	eventually(t, 30*time.Second, "both routes to be held", func() bool {
		routes := b.routes()
		return routes[missing].State == "held" && routes[refused].State == "held"
	})
	named := since(began)
	for topic, want := range map[string]string{missing: "NotFound", refused: "PermissionDenied"} {
		if reason := b.routes()[topic].Reason; !strings.Contains(reason, want) {
			t.Errorf("%s is held because %q, want something with %q", topic, reason, want)
		}
		t.Logf("%s: %s", topic, b.routes()[topic].Reason)
	}
	b.await("/ready", http.StatusServiceUnavailable)
	stop()
	eventually(t, patience(t), "the other routes to deliver everything", func() bool {
		n := s.truth.now()
		return n.received >= n.produced-600
	})
	others := since(began)
	commits, err := s.commits(s.group)
	if err != nil {
		t.Error(err)
	}
	for p, next := range commits {
		if (p.topic == missing || p.topic == refused) && next > 0 {
			t.Errorf("%s/%d: next %d is committed although the route is held", p.topic, p.number, next)
		}
	}
	s.createDestination(s.destination(missing))
	s.fake.Script(s.destination(refused), nil)
	began = time.Now()
	s.awaitAll(2 * time.Minute) // the probe comes at least each 60 s
	released := since(began)
	b.awaitReady()
	s.awaitCommits(s.group)
	exit := b.terminate()
	s.summary("both named after %v, others done after %v, released %v after the repair, exit code %d %v after SIGTERM",
		named, others, released, b.ExitCode(), exit)
}
