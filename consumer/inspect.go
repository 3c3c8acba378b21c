package consumer

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// Limits of time of an inspection, one step after the other, and of one dial.
const (
	inspectFirst = 10 * time.Second // until any broker answers
	inspectRest  = 10 * time.Second // everything else
	inspectDial  = 4 * time.Second
)

// inspector is one inspection under way.
type inspector struct {
	Options
	since  time.Time
	client *kgo.Client
	admin  *kadm.Client
	found  *Inspection
}

// Inspect asks Kafka about everything that Run needs. It only reads: it joins
// no group, commits nothing and creates nothing. It returns within 22 s,
// whoever does not answer, and fails only when the options do not fit together.
func Inspect(ctx context.Context, o Options) (*Inspection, error) {
	return InspectSince(ctx, o, time.Time{})
}

// InspectSince is Inspect, and finds where a time begins in each log.
func InspectSince(ctx context.Context, o Options, since time.Time) (*Inspection, error) {
	o.Dial = briefly(o.Dial)
	client, err := kgo.NewClient(append(o.reach(), kgo.RequestRetries(2), kgo.RequestTimeoutOverhead(inspectDial))...)
	if err != nil {
		return nil, fmt.Errorf("configuring the kafka client: %w", err)
	}
	defer within(context.WithoutCancel(ctx), closeStop, func(context.Context) { client.Close() })
	i := &inspector{Options: o, since: since, client: client, admin: kadm.NewClient(client), found: &Inspection{}}
	var steps sync.WaitGroup
	defer steps.Wait()
	for _, address := range o.Brokers {
		b := &BrokerInspection{Address: address, Node: -1}
		i.found.Brokers = append(i.found.Brokers, b)
		steps.Go(func() { i.dial(ctx, b) })
	}
	meta, err := i.metadata(ctx)
	if err != nil {
		i.found.Err, i.found.Cause = err, causeOf(err)
		return i.found, nil
	}
	rest, cancel := context.WithTimeout(ctx, inspectRest) // a name of its own: the dials above hold ctx
	defer cancel()
	defer steps.Wait() // before cancel
	for _, m := range meta.Brokers {
		address := net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port)))
		k := slices.IndexFunc(i.found.Brokers, func(b *BrokerInspection) bool { return b.Address == address })
		dialled := k >= 0
		if !dialled {
			k = len(i.found.Brokers)
			i.found.Brokers = append(i.found.Brokers, &BrokerInspection{Address: address})
		}
		b := i.found.Brokers[k]
		b.Node = m.NodeID
		steps.Go(func() {
			if !dialled {
				i.dial(rest, b)
			}
			i.ask(rest, b)
		})
	}
	i.describe(meta)
	steps.Go(func() { i.group(rest) })
	i.topics(rest)
	i.sample(rest)
	return i.found, nil
}

// briefly bounds dial, which is patient, by the time of an inspection.
func briefly(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, inspectDial)
		defer cancel()
		return dial(ctx, network, address)
	}
}

func (i *inspector) dial(ctx context.Context, b *BrokerInspection) {
	begun := time.Now()
	conn, err := i.Dial(ctx, "tcp", b.Address)
	b.Dial, b.DialErr = time.Since(begun), err
	if err != nil {
		return
	}
	defer conn.Close()
	if secure, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		for _, c := range secure.ConnectionState().PeerCertificates {
			if b.CertEnds.IsZero() || c.NotAfter.Before(b.CertEnds) {
				b.CertEnds = c.NotAfter
			}
		}
	}
}

// ask learns what a broker speaks, and that it lets us in: the first question
// is answered to everybody, the second is not.
func (i *inspector) ask(ctx context.Context, b *BrokerInspection) {
	broker := i.client.Broker(int(b.Node))
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = clientID, "check"
	resp, err := req.RequestWith(ctx, broker)
	if err == nil {
		versions := kversion.FromApiVersionsResponse(resp)
		metadata, _ := versions.LookupMaxKeyVersion(kmsg.Metadata.Int16())
		fetch, _ := versions.LookupMaxKeyVersion(kmsg.Fetch.Int16())
		b.TopicIDs, b.FetchIDs = metadata >= 10, fetch >= 13
		none := kmsg.NewPtrMetadataRequest()
		none.Topics = []kmsg.MetadataRequestTopic{}
		_, err = none.RequestWith(ctx, broker)
	}
	b.AskErr, b.AskCause = err, causeOf(err)
}

// metadata is the first question, to any broker. It is asked without kadm, to
// whom one forbidden topic is an error of all.
func (i *inspector) metadata(ctx context.Context) (*kmsg.MetadataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectFirst)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, r := range i.Routes {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: new(r.Topic)})
	}
	return req.RequestWith(ctx, i.client)
}

// describe takes the topics from metadata.
func (i *inspector) describe(meta *kmsg.MetadataResponse) {
	for _, r := range i.Routes {
		t := &TopicInspection{Topic: r.Topic, Err: kerr.UnknownTopicOrPartition}
		i.found.Topics = append(i.found.Topics, t)
		k := slices.IndexFunc(meta.Topics, func(m kmsg.MetadataResponseTopic) bool { return m.Topic != nil && *m.Topic == r.Topic })
		if k >= 0 {
			m := &meta.Topics[k]
			t.Err, t.ID = kerr.ErrorForCode(m.ErrorCode), m.TopicID
			t.MayRead = allowsRead(kadm.DecodeACLOperations(m.AuthorizedOperations))
			for _, p := range m.Partitions {
				t.Partitions = append(t.Partitions, PartitionInspection{p.Partition, kerr.ErrorForCode(p.ErrorCode), -1, -1, -1, -1})
			}
		}
		slices.SortFunc(t.Partitions, func(a, b PartitionInspection) int { return cmp.Compare(a.Partition, b.Partition) })
		t.Cause = causeOf(t.Err)
	}
}

// allowsRead reads the operations that we are authorized for. Where brokers
// report them there is at least one: who may not even describe gets an error.
func allowsRead(ops []kadm.ACLOperation) fault.Answer {
	switch {
	case len(ops) == 0:
		return fault.Unknown
	case slices.Contains(ops, kmsg.ACLOperationRead):
		return fault.Yes
	default:
		return fault.No
	}
}
