package fakekafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// silentFor is longer than a live member may be silent: it waits for the answer
// to a JoinGroup for one rebalance timeout, 30 s for ours.
const silentFor = time.Minute

// ExpireSilent removes members of a group that have sent nothing for a minute,
// until ctx ends. kfake starts a member's session when it has answered it, so
// one whose connection died while it waited for a rebalance stays for ever, and
// keeps what it was assigned.
func (c *Cluster) ExpireSilent(ctx context.Context, group string) error {
	cl, err := c.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	var mu sync.Mutex // guards heard
	heard := map[string]time.Time{}
	hear := func(member string) {
		mu.Lock()
		defer mu.Unlock()
		heard[member] = time.Now()
	}
	c.Watch(kmsg.JoinGroup, func(_ string, r kmsg.Request) func(kmsg.Response) {
		hear(r.(*kmsg.JoinGroupRequest).MemberID)
		return nil
	})
	c.Watch(kmsg.Heartbeat, func(_ string, r kmsg.Request) func(kmsg.Response) {
		hear(r.(*kmsg.HeartbeatRequest).MemberID)
		return nil
	})
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		info := c.GroupInfo(group)
		if info == nil {
			continue
		}
		for _, m := range info.Members {
			mu.Lock()
			last, known := heard[m.MemberID]
			if !known {
				heard[m.MemberID] = time.Now()
			}
			mu.Unlock()
			if !known || time.Since(last) < silentFor {
				continue
			}
			if err := expire(ctx, cl, group, m.MemberID); err != nil && ctx.Err() == nil {
				return fmt.Errorf("expiring a silent member: %w", err)
			}
		}
	}
}

func expire(ctx context.Context, cl kmsg.Requestor, group, member string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, member
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	req.Members = append(req.Members, m)
	_, err := req.RequestWith(ctx, cl)
	return err
}
