package quorumstore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestQuorumReleasesInBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		acquire := func(n int) []driver.Lease {
			leases := make([]driver.Lease, n)
			for i := range leases {
				r := request(fmt.Sprint(i), "owner:"+fmt.Sprint(time.Now().UnixNano(), i))
				l, err := q.Acquire(t.Context(), r)
				require.NoError(t, err)
				l.Request = r
				leases[i] = l
			}
			synctest.Wait() // wait for the members after the majority
			return leases
		}
		only := func(f fault) fault {
			return func(ctx context.Context, op locktest.Op) error {
				if op != locktest.Release {
					return nil
				}
				return f(ctx, op)
			}
		}
		out := make([]error, 10)
		leases := acquire(10)
		all[1].losesRequests(only(down))
		require.NoError(t, q.ReleaseAll(t.Context(), leases, out))
		assert.Equal(t, make([]error, 10), out, "a majority confirmed the releases")
		assert.Equal(t, 1, all.holding("0"))
		all[1].losesRequests(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, all.holding("0"), "the other members release in the background")

		leases = acquire(10)
		all[1].losesRequests(only(down))
		all[2].losesRequests(only(down))
		require.NoError(t, q.ReleaseAll(t.Context(), leases, out))
		for _, err := range out {
			require.ErrorIs(t, err, errIO)
			require.ErrorContains(t, err, "no majority confirmed the release")
		}
		synctest.Wait() // wait for the first attempt in the background
		all[1].losesRequests(nil)
		all[2].losesRequests(nil)
		require.NoError(t, q.ReleaseAll(t.Context(), leases, out))
		assert.Equal(t, make([]error, 10), out)
		require.NoError(t, q.ReleaseAll(t.Context(), leases, out))
		for _, err := range out {
			require.ErrorIs(t, err, lock.ErrNotHeld)
		}
	})
}
