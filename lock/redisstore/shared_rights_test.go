package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestTheRightsOfSharing(t *testing.T) {
	srv := testredis.Start(t)
	x := &exercise{t: t, srv: srv, admin: srv.Client(t)}
	if !hasUsers(t, x.admin) {
		t.Skip("there are no rights before Redis 6")
	}
	all := rightsOfAStore + " " + rightsOfSharing
	require.NoError(t, x.asUser(all, x.sharer))
	for right := range strings.SplitSeq(rightsOfSharing, " ") {
		require.Error(t, x.asUser(without(all, right), x.sharer), "%s is not needed", right)
	}
}

// sharer does with locks of all modes what there is to do, but for signals.
func (x *exercise) sharer(s *Store, _ *redis.Client) error {
	ctx := x.t.Context()
	for _, r := range allModes("k")[1:] {
		first, err := s.Acquire(ctx, r)
		if err != nil {
			return err
		}
		out := make([]renewal.Outcome, 1)
		if err := s.Renew(ctx, []lock.Lease{first}, out); err != nil {
			return err
		}
		assert.Equal(x.t, renewal.Renewed, out[0])
		waiter := r
		waiter.Owner = request("").Owner
		if r.Mode == lock.Read {
			waiter.Mode = lock.Write
		}
		// As after the end of a queue, in which some had died.
		require.NoError(x.t, x.admin.HSet(ctx, s.sharedKeys(r.Key, "").records, "a dead owner", "w 0 0 ").Err())
		if _, err := s.ask(ctx, waiter, time.Second); err != nil {
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
