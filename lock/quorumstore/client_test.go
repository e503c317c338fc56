package quorumstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// newQuorumClient returns a client with its own quorum of the servers, like another
// process.
func (s servers) newQuorumClient(t *testing.T, o *lock.Options) *lock.Client {
	t.Helper()
	c, err := lock.New(s.quorum(t), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
	return c
}

func TestQuorumRenewalContinuesAtSlowServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l := acquire(t, q, "k", "a")
		all.fail(1, slow(time.Second))
		time.Sleep(ttl / 2)
		ctx, cancel := context.WithTimeout(context.Background(), ttl/3)
		batch, out := []driver.Lease{l}, make([]renewal.Outcome, 1)
		start := time.Now()
		require.NoError(t, q.Renew(ctx, batch, out))
		cancel() // the watchdog cancels, too
		assert.Zero(t, time.Since(start))
		batch[0], out[0] = driver.Lease{}, renewal.Lost // the caller may reuse its memory
		assert.Equal(t, ttl/2, all[0].mem.ExpiresIn("k"))
		settle(time.Second)
		assert.Equal(t, ttl, all[0].mem.ExpiresIn("k"))
		assert.Equal(t, renewal.Lost, out[0])
	})
}

// A batch waits for a server only if one of its leases needs that server's answer.
func TestQuorumBatchWaitsForUndecidedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		everywhere := acquire(t, q, "a", "a")
		all.fail(1, down)
		without0 := acquire(t, q, "b", "b")
		all.fail(1, nil)
		again := acquire(t, q, "c", "c")
		lane := q.Lane
		assert.Equal(t, lane(everywhere), lane(again))
		assert.NotEqual(t, lane(everywhere), lane(without0), "the leases are renewed in different batches")

		all[1].losesRequests(slow(time.Second))
		start := time.Now()
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, everywhere))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed}, renew(t, q, everywhere, without0))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// A repeated Acquire succeeds only if the lease was held without a break. A writer that
// becomes a reader relies on that.
func TestQuorumRepeatedAcquireCountsOnlyOldCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 5)
		all.fail(2, down)
		l := acquire(t, q, "k", "a")
		all.fail(2, nil)
		again := acquire(t, q, "k", "a")
		lane := q.Lane
		before := lane(again)
		all[4].mem.Delete("k") // two copies are left, and another client could have had a majority since
		_, err := q.Acquire(context.Background(), l.Request)
		require.NoError(t, err, "the second Acquire went to all servers")
		synctest.Wait() // otherwise the first store may be asked after it has lost its copy, and grant a new one
		all[0].mem.Delete("k")
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
		synctest.Wait()
		assert.NotEqual(t, before, lane(l), "a server without a copy is not asked")
		for _, s := range all[1:4] {
			s.mem.Delete("k")
		}
		_, err = q.Acquire(context.Background(), l.Request)
		require.ErrorIs(t, err, driver.ErrLost)
		require.NotErrorIs(t, err, driver.ErrNotAcquired)
	})
}

// Once a majority of the old copies is confirmed, copies granted later count too.
func TestQuorumRepeatedAcquireCountsLaterCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 5)
		all.fail(2, down)
		acquire(t, q, "k", "a")
		all.fail(2, slow(time.Second))
		l := acquire(t, q, "k", "a")
		settle(time.Second)
		all.fail(2, nil)
		all[2].mem.Delete("k")
		all[3].mem.Delete("k")
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
	})
}

// One refusal does not say that the lock is lost while another server may have its copy.
func TestADowngradeIsUnsureIfAServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		m := all.newQuorumClient(t, nil).RWMutex("k")
		w, err := m.Lock(context.Background())
		require.NoError(t, err)
		synctest.Wait()
		all[1].mem.Delete("k")
		rival := request("k", "rival")
		rival.Mode = driver.Write
		_, err = all[1].mem.Acquire(context.Background(), rival)
		require.NoError(t, err)
		all.fail(1, down)
		_, err = m.Downgrade(context.Background(), w)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.NotErrorIs(t, err, driver.ErrLost)
		all.fail(1, nil) // for the release at the end
	})
}

// Clients that each got a minority release it, and retry at different times.
func TestQuorumSplitVotesAreResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, rounds = 8, 10
		all, _ := newServers(t, 5)
		d := newDice(1)
		all.fail(5, func(context.Context, locktest.Op) error {
			time.Sleep(time.Duration(d.roll(3000)) * time.Microsecond)
			return nil
		})
		ex := locktest.NewExclusion()
		start := time.Now()
		var wg sync.WaitGroup
		for range clients {
			c := all.newQuorumClient(t, nil)
			wg.Go(func() {
				for range rounds {
					h, err := c.Mutex("k").Lock(context.Background())
					if !assert.NoError(t, err) {
						return
					}
					ex.Enter("k", h.Token())
					time.Sleep(time.Millisecond)
					ex.Leave("k", h.Token())
					assert.NoError(t, h.Unlock(context.Background()))
				}
			})
		}
		wg.Wait()
		assert.Empty(t, ex.Violations())
		assert.Equal(t, clients*rounds, ex.Entered())
		assert.Less(t, time.Since(start), ttl, "no client waited for the end of a lease")
	})
}

// A server that loses its locks and continues at once can complete a second majority, as
// the package documentation warns.
func TestQuorumNeedsADelayedRestart(t *testing.T) {
	for _, delayed := range []bool{false, true} {
		t.Run(fmt.Sprint(delayed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := newServers(t, 3)
				all[0].losesRequests(down)
				a, err := all.newQuorumClient(t, nil).Mutex("k").TryLock(context.Background())
				require.NoError(t, err)
				synctest.Wait()
				all[0].losesRequests(nil)
				all[1].mem.Delete("k") // it restarts without its data
				if delayed {
					all[1].losesRequests(down)
				}
				b, err := all.newQuorumClient(t, nil).Mutex("k").TryLock(context.Background())
				assert.Equal(t, delayed, err != nil)
				assert.Equal(t, !delayed, a.Valid() && b.Valid(), "two holders")
				settle(ttl)
				assert.False(t, a.Valid(), "%v %d", a.Err(), all.holding("k"))
				all[1].losesRequests(nil)
				_, err = all.newQuorumClient(t, nil).Mutex("k").TryLock(context.Background())
				assert.Equal(t, delayed, err == nil)
			})
		})
	}
}
