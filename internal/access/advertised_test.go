package access

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mskbridge/mskbridge/internal/testbed/fakekafka"
)

// TestAdvertisedMetadataServer has a cluster whose second broker says that it is
// at the address of a metadata server. The client is told why it may not go
// there, and goes on with the other.
func TestAdvertisedMetadataServer(t *testing.T) {
	first := ""
	cluster, err := fakekafka.Start(fakekafka.Options{Brokers: 2, Advertise: func(at string) string {
		if first == "" {
			first = at
			return at
		}
		return "169.254.169.254:80"
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(first), kgo.Dialer(Dialer(nil, policyFor(t, first))), kgo.RequestRetries(1))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answer, err := client.Request(t.Context(), kmsg.NewPtrMetadataRequest())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range answer.(*kmsg.MetadataResponse).Brokers {
		_, err := client.Broker(int(b.NodeID)).Request(t.Context(), kmsg.NewPtrMetadataRequest())
		var refusal *DialRefusedError
		if b.Host != "169.254.169.254" {
			if err != nil {
				t.Errorf("broker %s: %v", b.Host, err)
			}
		} else if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "the dial policy refuses 169.254.169.254: it is link-local, where metadata servers are") {
			t.Errorf("broker %s: %v", b.Host, err)
		}
	}
	if err := client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
