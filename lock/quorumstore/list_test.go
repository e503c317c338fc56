package quorumstore_test

import (
	"context"
	"errors"
	"slices"
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

// listAll returns the sorted keys of all pages, those that were returned twice, too.
func listAll(ctx context.Context, q *quorumstore.Store) (all []string, err error) {
	for cursor, more := "", true; more; more = cursor != "" {
		keys, next, err := q.List(ctx, "", cursor)
		if err != nil {
			return nil, err
		}
		all, cursor = append(all, keys...), next
	}
	slices.Sort(all)
	return all, nil
}

// Any half of the members has a copy of every lock.
func TestQuorumListNeedsHalfOfTheMembers(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for dead := range 1 << n {
			synctest.Test(t, func(t *testing.T) {
				all, q := newServers(t, n)
				held := n/2 + 1
				for first := range n { // each lock has another majority
					for i := range held {
						_, err := all[(first+i)%n].mem.Acquire(t.Context(), driver.Request{Key: string(rune('a' + first)), Owner: "o", TTL: ttl})
						require.NoError(t, err)
					}
				}
				failing := 0
				for i := range n {
					if dead>>i&1 == 1 {
						failing++
						all[i].losesRequests(down)
					}
				}
				keys, err := listAll(t.Context(), q)
				if n-failing < (n+1)/2 {
					require.ErrorContains(t, err, "too few stores")
					return
				}
				require.NoError(t, err)
				assert.Len(t, slices.Compact(keys), n, "%d members, %b down", n, dead)
			})
		}
	}
}

func TestQuorumListIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		acquire(t, q, "k", "a")
		all.fail(1, mute)
		start := time.Now()
		keys, err := listAll(t.Context(), q)
		require.NoError(t, err)
		assert.Equal(t, []string{"k", "k"}, keys)
		assert.Equal(t, time.Second, time.Since(start))

		cause := errors.New("the cause")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
		defer cancel()
		_, err = listAll(ctx, q)
		require.ErrorIs(t, err, cause)
		time.Sleep(time.Minute)
	})
}

func TestQuorumListNeedsListers(t *testing.T) {
	for _, member := range []driver.Store{locktest.Plain(memstore.New()), driver.Wrap(locktest.Plain(memstore.New()), nil)} {
		q, err := quorumstore.New(member, memstore.New(), memstore.New())
		require.NoError(t, err)
		_, _, err = q.List(t.Context(), "", "")
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.NoError(t, q.Close())
	}
}
