package redisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestTheDocumentedRightsOfSharedLocks(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	x := &exercise{t: t, srv: srv, admin: srv.Client(t)}
	if !hasUsers(t, x.admin) {
		t.Skip("there are no rights before Redis 6")
	}
	all := rightsOfAStore + " " + rightsOfSharing
	require.NoError(t, x.asUser(all, x.sharer))
	for right := range strings.SplitSeq(rightsOfSharing, " ") {
		require.Error(t, x.asUser(without(all, right), x.sharer), "%s is not necessary", right)
	}
}

// sharer uses locks of all modes in every way, without signals.
func (x *exercise) sharer(s *Store, _ *redis.Client) error {
	ctx := x.t.Context()
	for _, r := range allModes("k")[1:] {
		first, err := s.Acquire(ctx, r)
		if err != nil {
			return err
		}
		out := make([]renewal.Outcome, 1)
		if err := s.Renew(ctx, []driver.Lease{first}, out); err != nil {
			return err
		}
		assert.Equal(x.t, renewal.Renewed, out[0])
		waiter := r
		waiter.Owner = request("").Owner
		if r.Mode == driver.Read {
			waiter.Mode = driver.Write
		}
		// This is the state after a queue in which some places have expired.
		require.NoError(x.t, x.admin.HSet(ctx, s.sharedKeys(r.Key, "").records, "an expired owner", "w 0 0 ").Err())
		if _, err := s.sendAcquire(ctx, waiter, ttl30); err != nil {
			return err
		}
		if err := s.Release(ctx, first); err != nil {
			return err
		}
		if err := s.ForceRelease(ctx, r.Key); err != nil {
			return err
		}
	}
	return nil
}
