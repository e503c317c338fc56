package lock_test

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
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// newQuorumClient returns a client of a quorum of its own, as another process has.
func (s servers) newQuorumClient(t *testing.T, o *lock.Options) *lock.Client {
	t.Helper()
	c, err := lock.New(s.quorum(t), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
	return c
}

func TestQuorumRenewalGoesOnAtSlowServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l := acquire(t, q, "k", "a")
		all.fail(1, slow(time.Second))
		time.Sleep(ttl / 2)
		ctx, cancel := context.WithTimeout(context.Background(), ttl/3)
		batch, out := []lock.Lease{l}, make([]renewal.Outcome, 1)
		start := time.Now()
		require.NoError(t, q.Renew(ctx, batch, out))
		cancel() // as the watchdog does
		assert.Zero(t, time.Since(start))
		batch[0], out[0] = lock.Lease{}, renewal.Lost // which are the caller's again
		assert.Equal(t, ttl/2, all[0].mem.ExpiresIn("k"))
		settle(time.Second)
		assert.Equal(t, ttl, all[0].mem.ExpiresIn("k"))
		assert.Equal(t, renewal.Lost, out[0])
	})
}

// A batch waits for a server only if one of its leases needs that.
func TestQuorumBatchWaitsForWhatIsUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		everywhere := acquire(t, q, "a", "a")
		all.fail(1, down)
		without0 := acquire(t, q, "b", "b")
		all.fail(1, nil)
		again := acquire(t, q, "c", "c")
		lane := q.(renewal.Laner[lock.Lease]).Lane
		assert.Equal(t, lane(everywhere), lane(again))
		assert.NotEqual(t, lane(everywhere), lane(without0), "so they are of different batches")

		all[1].losesRequests(slow(time.Second))
		start := time.Now()
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, everywhere))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed}, renew(t, q, everywhere, without0))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestQuorumIsLostWithItsMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		c := all.newQuorumClient(t, nil)
		h, err := c.Mutex("k").Lock(context.Background())
		require.NoError(t, err)
		assert.Zero(t, h.Token())
		synctest.Wait() // for the third
		all[0].mem.Delete("k")
		settle(2 * ttl)
		require.NoError(t, h.Err(), "two have it still")
		assert.Equal(t, 2, all.holding("k"), "and a renewal takes nothing")
		all[1].mem.Delete("k")
		settle(ttl / 3)
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		assert.Equal(t, renewal.NotOwned, lost.Reason)
		require.ErrorIs(t, h.Unlock(context.Background()), lock.ErrLost)
	})
}

// Who asks again for what it holds learns whether it has held it all the while, as a
// writer must that becomes a reader.
func TestQuorumAskedAgainCountsOnlyWhatWasThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 5)
		all.fail(2, down)
		l := acquire(t, q, "k", "a")
		all.fail(2, nil)
		again := acquire(t, q, "k", "a")
		lane := q.(renewal.Laner[lock.Lease]).Lane
		before := lane(again)
		all[4].mem.Delete("k") // two are left, and others could have had a majority since
		_, err := q.Acquire(context.Background(), l.Request)
		require.NoError(t, err, "the second one was asked of all")
		synctest.Wait() // or else the first store may be asked after it has lost it, and grant it anew
		all[0].mem.Delete("k")
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
		synctest.Wait()
		assert.NotEqual(t, before, lane(l), "who has lost it is not asked any more")
		for _, s := range all[1:4] {
			s.mem.Delete("k")
		}
		_, err = q.Acquire(context.Background(), l.Request)
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
	})
}

// When enough of those have said so that had it before, it counts what others grant
// later.
func TestQuorumAskedAgainCountsWhatComesLater(t *testing.T) {
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

// What was taken from a writer it has not got again because it asks twice.
func TestQuorumWriterThatWasForcedBecomesNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		c := all.newQuorumClient(t, nil)
		m := c.RWMutex("k")
		w, err := m.Lock(context.Background())
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.ForceRelease(context.Background(), "k"))
		other, err := all.newQuorumClient(t, nil).RWMutex("k").TryLock(context.Background())
		require.NoError(t, err)
		require.NoError(t, other.Unlock(context.Background()))
		synctest.Wait()
		_, err = m.Downgrade(context.Background(), w)
		require.ErrorIs(t, err, lock.ErrLost)
		synctest.Wait()
		assert.Zero(t, all.holding("k"))
	})
}

// A server that did not answer the Acquire does not have the lock: it is one that
// the others must not lose.
func TestQuorumWithoutTheAnswerOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		all[0].losesAnswers(once(locktest.Acquire, errIO))
		c := all.newQuorumClient(t, nil)
		h, err := c.Mutex("k").Lock(context.Background())
		require.NoError(t, err)
		settle(2 * ttl)
		require.NoError(t, h.Err())
		assert.Equal(t, 2, all.holding("k"))
		all[1].mem.Delete("k")
		<-h.Done()
		require.ErrorIs(t, h.Unlock(context.Background()), lock.ErrLost)
	})
}

func TestQuorumIsHeldThroughFailuresOfAMinority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 5)
		c := all.newQuorumClient(t, nil)
		h, err := c.Mutex("k").Lock(context.Background())
		require.NoError(t, err)
		synctest.Wait()         // for the others
		for round := range 20 { // each is away for a time, two at a time
			for i, s := range all {
				if i == round%5 || i == (round+2)%5 {
					s.losesRequests(mute)
				}
			}
			settle(ttl / 2)
			all.fail(5, nil)
			settle(ttl / 2)
			require.NoError(t, h.Err(), "round %d", round)
		}
		require.NoError(t, h.Unlock(context.Background()))
		assert.Zero(t, all.holding("k"))
	})
}

// Several who get a minority each give it back and part ways.
func TestQuorumSplitVotesEnd(t *testing.T) {
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
		assert.Less(t, time.Since(start), ttl, "none had to wait for the end of a lease")
	})
}

// A server that forgets its locks and goes on at once can make a second majority:
// what the documentation warns of.
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
				all[1].mem.Delete("k") // it is started anew, without its data
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

// Close ends a Lock whose requests are on their way, and takes back what they get.
func TestQuorumCloseLeavesNoLockForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		c, err := lock.New(all.quorum(t), nil)
		require.NoError(t, err)
		for _, s := range all {
			s.losesRequests(far)
			s.losesAnswers(far)
		}
		ended := make(chan error)
		go func() {
			_, err := c.Mutex("k").Lock(context.Background())
			ended <- err
		}()
		settle(200 * time.Millisecond) // the lock is taken, and nobody knows yet
		assert.Equal(t, 3, all.holding("k"))
		go func() { assert.NoError(t, c.Close(context.Background())) }()
		require.ErrorIs(t, <-ended, lock.ErrClosed)
		settle(time.Second)
		assert.Zero(t, all.holding("k"))
	})
}
