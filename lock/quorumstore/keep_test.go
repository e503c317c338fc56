package quorumstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

// A member that did not answer the release gets it again in the background, and keeps its copy
// for what is left then.
func TestEachMemberOfAQuorumKeepsItsCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l, err := q.Acquire(ctx, request("k", "a"))
		require.NoError(t, err)
		synctest.Wait()
		l.Request = request("k", "a")
		l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(5 * ttl)}
		all[0].losesRequests(once(locktest.Release, errIO))
		require.NoError(t, q.Release(ctx, l))
		settle(time.Second)
		for i, s := range all {
			assert.Equal(t, 5*ttl-time.Second, s.mem.ExpiresIn("k"), "member %d", i)
		}
		info, err := q.Inspect(ctx, "k")
		require.NoError(t, err)
		assert.Equal(t, driver.Info{FreeIn: 5*ttl - time.Second}, info)
	})
}

// FreeIn is the time until a majority can be had. A minority that is taken is in nobody's way.
func TestAQuorumIsFreeWhenAMajorityIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		freeIn := func() time.Duration {
			info, err := q.Inspect(ctx, "k")
			require.NoError(t, err)
			return info.FreeIn
		}
		for i, want := range []time.Duration{0, ttl, 2 * ttl} {
			if i == 1 {
				all[2].losesRequests(once(locktest.Inspect, errIO))
				assert.Zero(t, freeIn(), "one member is taken, one is free and one does not answer")
			}
			l, err := all[i].mem.Acquire(ctx, request("k", "a"))
			require.NoError(t, err)
			l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(time.Duration(i+1) * ttl)}
			require.NoError(t, all[i].mem.Release(ctx, l))
			assert.Equal(t, want, freeIn(), "%d members are taken", i+1)
		}
	})
}

func TestAQuorumKeepsLocksIfAllMembersDo(t *testing.T) {
	q, err := quorumstore.New(memstore.New(), memstore.New(), locktest.Plain(memstore.New()))
	require.NoError(t, err)
	assert.Zero(t, q.Describe().Keeps)
	require.NoError(t, q.Close())
}
