package consumer

import (
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// reborn guards the group against positions of a former life. When the
// coordinator has expelled us and a join is what tells so, the client joins
// again as a new member but keeps what it had. It would commit the positions of
// partitions that others have owned since, and so take their commits back. The
// first assignment of a new member is therefore read as empty: the client then
// revokes all that it had, which onRevoked treats as lost, and joins once more.
// Until then nothing is committed: a commit that had to wait for the join would
// go out with the new member's name.
type reborn struct {
	kgo.GroupBalancer
	member func() string // our id in the group

	last  string      // the member that the latest assignment was for
	had   atomic.Bool // it was not empty and has not been lost since
	stale atomic.Bool // what is revoked now belongs to a former member
}

// ParseSyncAssignment is called for each assignment, by one goroutine.
func (r *reborn) ParseSyncAssignment(b []byte) (map[string][]int32, error) {
	assigned, err := r.GroupBalancer.ParseSyncAssignment(b)
	if err != nil {
		return nil, err //nolint:wrapcheck // the client's own
	}
	member := r.member()
	r.stale.Store(r.had.Load() && member != r.last)
	if r.last = member; r.stale.Load() {
		assigned = nil
	}
	r.had.Store(len(assigned) > 0)
	return assigned, nil
}

// lost notes that the client has nothing any more.
func (r *reborn) lost() { r.had.Store(false) }

var errReborn = errors.New("not committing what a former member of the group had")

// mayCommit is asked before each commit.
func (r *reborn) mayCommit() error {
	if r.stale.Load() {
		return errReborn
	}
	return nil
}
