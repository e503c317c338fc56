package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestQuorumContract(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var all servers // of the case that runs
			locktest.TestStore(t, locktest.Config{
				New: func(t *testing.T) (q lock.Store) {
					all, q = newServers(t, n)
					return q
				},
				TTL:       ttl,
				Tokenless: true,
				Modes:     locktest.AllModes,
				Inspects:  true,
				Run:       synctest.Test,
				Delete:    func(_ *testing.T, _ lock.Store, key string) { all.delete(key) },
				Another:   func(t *testing.T, _ lock.Store) lock.Store { return all.quorum(t) },
			})
		})
	}
}

func TestQuorumRefusesItsStores(t *testing.T) {
	a, b := memstore.New(), memstore.New()
	var none *memstore.Store
	at := func(addresses ...string) lock.Store { return addressed{memstore.New(), addresses} }
	nested, err := lock.Quorum(at("x:1"), at("y:1"))
	require.NoError(t, err)
	for want, stores := range map[string][]lock.Store{
		"no stores":         {},
		"store 1":           {a, nil},
		"store 0":           {none, a},
		"store 2 of Quorum": {a, b, a},
		"y:1":               {at("x:1", "y:1"), a, at("z:1", "y:1")},
		"x:1":               {nested, at("x:1")},
	} {
		_, err := lock.Quorum(stores...)
		require.ErrorContains(t, err, want)
	}
	_, err = lock.Quorum(a, b, at("x:1"), at("y:1"), at())
	require.NoError(t, err)
}

type addressed struct {
	*memstore.Store
	addresses []string
}

func (a addressed) Addresses() []string { return a.addresses }

// A minority that fails, in whatever way, changes nothing but what it has itself.
func TestQuorumWithoutAMinority(t *testing.T) {
	faults := map[string]fault{
		"down": down, "silent": mute, "slow": slow(5 * time.Second),
	}
	for name, fault := range faults {
		for dead, n := range map[int]int{1: 3, 2: 5} {
			t.Run(fmt.Sprintf("%d of %d %s", dead, n, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all, q := newServers(t, n)
					all.fail(dead, fault)
					start := time.Now()
					l := acquire(t, q, "k", "a")
					assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
					assert.Zero(t, time.Since(start), "nobody waits for the dead")
					_, err := q.Acquire(context.Background(), request("k", "b"))
					var held *lock.HeldError
					require.ErrorAs(t, err, &held)
					assert.Equal(t, ttl, held.ExpiresIn)

					time.Sleep(ttl - time.Second)
					assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
					time.Sleep(ttl - time.Second)
					require.ErrorAs(t, failure(q.Acquire(context.Background(), request("k", "b"))), &held, "it was renewed")
					require.NoError(t, q.Release(context.Background(), l))
					acquire(t, q, "k", "b")
				})
			})
		}
	}
}

func failure(_ lock.Lease, err error) error { return err }

func TestQuorumWithoutAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 5)
		l := acquire(t, q, "held", "a")
		all.fail(3, down)
		_, err := q.Acquire(context.Background(), request("k", "a"))
		require.ErrorIs(t, err, errIO)
		require.NotErrorIs(t, err, lock.ErrNotAcquired, "nobody holds it")
		for i := range 3 {
			require.ErrorContains(t, err, fmt.Sprintf("store %d: ", i))
		}
		synctest.Wait()
		assert.Zero(t, all.holding("k"), "what a minority granted is given back")

		out := make([]renewal.Outcome, 1)
		require.ErrorIs(t, q.Renew(context.Background(), []lock.Lease{l}, out), errIO)
		assert.Equal(t, renewal.Unknown, out[0])
		require.ErrorIs(t, q.Release(context.Background(), l), errIO)
		all.fail(3, nil)
		require.NoError(t, q.Release(context.Background(), l), "when it is asked again")
		assert.Zero(t, all.holding("held"))
	})
}

// Who holds a lock that others want, with a server that is dead, is not a failure
// to be told: it is a lock that is taken.
func TestQuorumIsTakenThoughAServerIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all.fail(1, down)
		_, err := all[1].mem.Acquire(context.Background(), request("k", "a")) // a rival with a minority
		require.NoError(t, err)
		var held *lock.HeldError
		require.ErrorAs(t, failure(q.Acquire(context.Background(), request("k", "b"))), &held)
		assert.Equal(t, ttl, held.ExpiresIn)
		assert.Equal(t, "k", held.Key)
	})
}

func TestQuorumTellsWhenAMajorityIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 5)
		for i := range 4 {
			r := request("k", fmt.Sprint(i))
			r.TTL = time.Duration(i+1) * time.Second
			_, err := all[i].mem.Acquire(context.Background(), r)
			require.NoError(t, err)
		}
		var held *lock.HeldError
		require.ErrorAs(t, failure(q.Acquire(context.Background(), request("k", "b"))), &held)
		// It may have asked only until three said so.
		assert.GreaterOrEqual(t, held.ExpiresIn, 2*time.Second)
		assert.LessOrEqual(t, held.ExpiresIn, 4*time.Second)
	})
}

// deaf has the answers to all acquires come so late, whatever their bound.
func (s servers) deaf(d time.Duration) {
	for _, one := range s {
		one.losesAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				time.Sleep(d)
			}
			return nil
		})
	}
}

// S9: answers that took so long that nothing is left of the TTL count for nothing.
func TestS9QuorumCountsWithinTheValidityTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all.deaf(995 * time.Millisecond)
		r := request("k", "a")
		r.TTL = time.Second
		start := time.Now()
		_, err := q.Acquire(context.Background(), r)
		require.ErrorContains(t, err, "too late")
		assert.Equal(t, 995*time.Millisecond, time.Since(start))
		synctest.Wait()
		assert.Zero(t, all.holding("k"), "what was granted is given back at once")
	})
}

// S9: what may have been drifted apart is no time left.
func TestS9QuorumAllowsForDrift(t *testing.T) {
	for took, want := range map[time.Duration]bool{988*time.Millisecond - 1: true, 988 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			all, q := newServers(t, 3)
			all.deaf(took)
			r := request("k", "a")
			r.TTL = time.Second
			start := time.Now()
			l, err := q.Acquire(context.Background(), r)
			assert.Equal(t, want, err == nil, "%v", took)
			if err == nil {
				assert.Equal(t, start, l.Sent, "the TTL counts from before the first request")
			}
		})
	}
}

// A store that hangs costs a part of the TTL, and only where it is needed.
func TestQuorumBoundsEachServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all.fail(2, mute)
		for ttl, want := range map[time.Duration]time.Duration{time.Second: 200 * time.Millisecond, 30 * time.Second: 3 * time.Second, time.Hour: 3 * time.Second} {
			start := time.Now()
			r := request("k", "a")
			r.TTL = ttl
			_, err := q.Acquire(context.Background(), r)
			require.ErrorContains(t, err, "store 1: no answer in time")
			assert.Equal(t, want, time.Since(start))
		}
	})
}

func TestQuorumReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		l := acquire(t, q, "held", "a")
		all.fail(3, slow(time.Second))
		cause := errors.New("the cause")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
		defer cancel()
		_, err := q.Acquire(ctx, request("k", "a"))
		require.ErrorIs(t, err, cause)
		ctx, cancel = context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
		defer cancel()
		require.ErrorIs(t, q.Renew(ctx, []lock.Lease{l}, make([]renewal.Outcome, 1)), cause)
		ctx, cancel = context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
		defer cancel()
		require.ErrorIs(t, q.Release(ctx, l), cause)
		settle(3 * time.Second)
		assert.Zero(t, all.holding("k"), "late grants are given back")
		assert.Zero(t, all.holding("held"), "and a release goes on")
	})
}

// A grant that comes when its try has failed, or was released, is given back.
func TestQuorumGivesLateGrantsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all[0].losesAnswers(slow(time.Second))
		all[1].losesRequests(down)
		all[2].losesRequests(down)
		_, err := q.Acquire(context.Background(), request("k", "a"))
		require.Error(t, err)
		synctest.Wait()
		assert.Equal(t, 1, all.holding("k"))
		settle(time.Second)
		assert.Zero(t, all.holding("k"))

		all[1].losesRequests(nil)
		all[2].losesRequests(nil)
		l := acquire(t, q, "k", "a")
		require.NoError(t, q.Release(context.Background(), l))
		settle(2 * time.Second)
		assert.Zero(t, all.holding("k"))
	})
}

// A request that was lost may be executed later. Its owner is refused by then.
func TestQuorumLeavesATombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		var sent atomic.Pointer[lock.Request]
		stores := []lock.Store{lossy{all[0].mem, &sent}, all[1].mem, all[2].mem}
		q, err := lock.Quorum(stores...)
		require.NoError(t, err)
		defer func() { require.NoError(t, closeStore(q)) }()
		l := acquire(t, q, "k", "a")
		require.NoError(t, q.Release(context.Background(), l))
		synctest.Wait()
		require.NotNil(t, sent.Load())
		_, err = all[0].mem.Acquire(context.Background(), *sent.Load())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Zero(t, all.holding("k"))
	})
}

// lossy loses requests and shows them.
type lossy struct {
	*memstore.Store
	sent *atomic.Pointer[lock.Request]
}

func (s lossy) Acquire(_ context.Context, r lock.Request) (lock.Lease, error) {
	s.sent.Store(&r)
	return lock.Lease{}, errIO
}

// What a try left behind is released while the next one is under way: the two must
// not be one owner.
func TestQuorumTriesHaveOwnersOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all[1].losesRequests(down)
		all[2].losesRequests(down)
		all[0].losesRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Release {
				time.Sleep(time.Second) // which comes late
			}
			return nil
		})
		_, err := q.Acquire(context.Background(), request("k", "a"))
		require.Error(t, err)
		all.fail(3, nil)
		l := acquire(t, q, "k", "a")
		settle(2 * time.Second)
		require.NoError(t, q.Release(context.Background(), l), "it is still held by a majority")
	})
}

func TestQuorumPermitsAreCountedInMoreThanAMajority(t *testing.T) {
	for _, c := range []struct{ n, limit, need int }{{3, 1, 2}, {3, 2, 3}, {5, 1, 3}, {5, 2, 4}, {5, 3, 4}, {5, 4, 5}, {5, 1000, 5}, {1, 9, 1}, {3, 0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			all, _ := newServers(t, c.n)
			stores := make([]lock.Store, c.n)
			for i := range stores {
				stores[i] = permissive{all[i].mem}
			}
			q, err := lock.Quorum(stores...)
			require.NoError(t, err)
			for alive := range c.n + 1 {
				r := request(fmt.Sprint("k", alive), "a")
				r.Mode, r.Extra = lock.Permit, &lock.Extra{Limit: c.limit}
				for _, one := range all[alive:] {
					_, err := one.mem.Acquire(context.Background(), request(r.Key, "other"))
					require.NoError(t, err)
				}
				_, err := q.Acquire(context.Background(), r)
				assert.Equal(t, alive >= c.need, err == nil, "%d of %d for a limit of %d", alive, c.n, c.limit)
			}
			require.NoError(t, closeStore(q))
		})
	}
}

// permissive takes every mode for exclusive.
type permissive struct{ *memstore.Store }

func (p permissive) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	r.Mode = lock.Exclusive
	return p.Store.Acquire(ctx, r)
}

func TestAClosedQuorumRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		q, err := lock.Quorum(all[0], all[1], all[2])
		require.NoError(t, err)
		l := acquire(t, q, "k", "a")
		all.fail(1, mute)
		acquire(t, q, "j", "a") // with a call that is still under way
		require.NoError(t, closeStore(q))
		require.ErrorIs(t, failure(q.Acquire(context.Background(), l.Request)), lock.ErrClosed)
		require.ErrorIs(t, q.Renew(context.Background(), []lock.Lease{l}, make([]renewal.Outcome, 1)), lock.ErrClosed)
		require.ErrorIs(t, q.Release(context.Background(), l), lock.ErrClosed)
		require.ErrorIs(t, failure(all[2].mem.Acquire(context.Background(), l.Request)), lock.ErrClosed, "it closes its stores")
	})
}
