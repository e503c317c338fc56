package quorumstore_test

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

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestQuorumContract(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var all servers // servers of the current case
			locktest.TestStore(t, locktest.Config{
				New: func(t *testing.T) (q driver.Store) {
					all, q = newServers(t, n)
					return q
				},
				TTL:       ttl,
				Explains:  true,
				Tokenless: true,
				Modes:     locktest.AllModes,
				Run:       synctest.Test,
				Delete:    func(_ *testing.T, _ driver.Store, key string) { all.delete(key) },
				Another:   func(t *testing.T, _ driver.Store) driver.Store { return all.quorum(t) },
			})
		})
	}
}

func TestQuorumRefusesItsStores(t *testing.T) {
	a, b := memstore.New(), memstore.New()
	var none *memstore.Store
	at := func(addresses ...string) driver.Store { return addressed{memstore.New(), addresses} }
	nested, err := quorumstore.New(at("x:1"), at("y:1"))
	require.NoError(t, err)
	for want, stores := range map[string][]driver.Store{
		"no stores":                   {},
		"store 1":                     {a, nil},
		"store 0":                     {none, a},
		"stores 0 and 2 are the same": {a, b, a},
		"y:1":                         {at("x:1", "y:1"), a, at("z:1", "y:1")},
		"x:1":                         {nested, at("x:1")},
	} {
		_, err := quorumstore.New(stores...)
		require.ErrorContains(t, err, want)
	}
	for _, same := range [][]string{
		{
			"127.0.0.1:6379", "localhost:6379", "LOCALHOST:6379", "localhost.:6379", "127.1:6379", "127.0.1:6379", "0x7f.1:06379", "2130706433:6379",
			"[::ffff:127.0.0.1]:6379", "::ffff:127.0.0.1:6379", ":6379", "0.0.0.0:6379", "[::]:6379", "127.0.0.1:006379",
		},
		{"[2001:db8::1]:1", "[2001:DB8:0:0:0:0:0:1]:1"},
		{"Redis-A.example:1", "redis-a.example.:1"},
		{"/run/redis.sock", "/run//redis.sock", "/run/x/../redis.sock"},
		{"Name", "name"},
	} {
		for i, addr := range same[1:] {
			_, err := quorumstore.New(a, at(same[0]), at(addr))
			require.ErrorContains(t, err, "stores 1 and 2 share the server at "+addr, "%d", i)
		}
	}
	_, err = quorumstore.New(at("127.0.0.1:1"), at("127.0.0.2:1"), at("127.0.0.1:10"), at("[::1]:1"), at("a.example:1"), at("b.example:1"),
		at("256.1:1"), at("1.2.3.4.5:1"), at("/run/a"), at("/run/A"), at("127.0.0.1:0"))
	require.NoError(t, err)
	_, err = quorumstore.New(a, b, at("x:1"), at("y:1"), at())
	require.NoError(t, err)
}

type addressed struct {
	*memstore.Store
	addresses []string
}

func (a addressed) Describe() driver.Description { return driver.Description{Addresses: a.addresses} }

// A minority that fails in any way affects only its own copies.
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
					assert.Zero(t, time.Since(start), "Acquire does not wait for dead servers")
					_, err := q.Acquire(context.Background(), request("k", "b"))
					var held *driver.HeldError
					require.ErrorAs(t, err, &held)
					assert.Equal(t, ttl, held.ExpiresIn)

					time.Sleep(ttl - time.Second)
					assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
					time.Sleep(ttl - time.Second)
					require.ErrorAs(t, failure(q.Acquire(context.Background(), request("k", "b"))), &held, "the lease was renewed")
					require.NoError(t, q.Release(context.Background(), l))
					acquire(t, q, "k", "b")
				})
			})
		}
	}
}

func failure(_ driver.Lease, err error) error { return err }

func TestQuorumWithoutAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 5)
		l := acquire(t, q, "held", "a")
		all.fail(3, down)
		_, err := q.Acquire(context.Background(), request("k", "a"))
		require.ErrorIs(t, err, errIO)
		require.NotErrorIs(t, err, driver.ErrNotAcquired, "the lock is not held")
		for i := range 3 {
			require.ErrorContains(t, err, fmt.Sprintf("store %d: ", i))
		}
		synctest.Wait()
		assert.Zero(t, all.holding("k"), "copies of a minority are released")

		out := make([]renewal.Outcome, 1)
		require.ErrorIs(t, q.Renew(context.Background(), []driver.Lease{l}, out), errIO)
		assert.Equal(t, renewal.Unknown, out[0])
		require.ErrorIs(t, q.Release(context.Background(), l), errIO)
		synctest.Wait() // the releases in the background have failed, too
		all.fail(3, nil)
		require.NoError(t, q.Release(context.Background(), l), "a repeated Release succeeds")
		assert.Zero(t, all.holding("held"))
	})
}

// A lock of another holder is reported as held, even if one server is down.
func TestQuorumReportsAHeldLockWithAServerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all.fail(1, down)
		_, err := all[1].mem.Acquire(context.Background(), request("k", "a")) // a rival with a copy at one server
		require.NoError(t, err)
		var held *driver.HeldError
		require.ErrorAs(t, failure(q.Acquire(context.Background(), request("k", "b"))), &held)
		assert.Equal(t, ttl, held.ExpiresIn)
		assert.Equal(t, "k", held.Key)
	})
}

func TestQuorumReportsWhenAMajorityIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 5)
		for i := range 4 {
			r := request("k", fmt.Sprint(i))
			r.TTL = time.Duration(i+1) * time.Second
			_, err := all[i].mem.Acquire(context.Background(), r)
			require.NoError(t, err)
		}
		var held *driver.HeldError
		require.ErrorAs(t, failure(q.Acquire(context.Background(), request("k", "b"))), &held)
		// Acquire may have stopped after three refusals.
		assert.GreaterOrEqual(t, held.ExpiresIn, 2*time.Second)
		assert.LessOrEqual(t, held.ExpiresIn, 4*time.Second)
	})
}

// deaf delays the answers to all acquires, regardless of their timeout.
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

// S9: answers do not count after the TTL has passed.
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
		assert.Zero(t, all.holding("k"), "late copies are released at once")
	})
}

// S9: the margin for clock drift is not part of the remaining time.
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
				assert.Equal(t, start, l.Sent, "the TTL starts before the first request")
			}
		})
	}
}

// A hanging store costs a part of the TTL, and only if its answer is needed.
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
		require.ErrorIs(t, q.Renew(ctx, []driver.Lease{l}, make([]renewal.Outcome, 1)), cause)
		ctx, cancel = context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
		defer cancel()
		require.ErrorIs(t, q.Release(ctx, l), cause)
		settle(3 * time.Second)
		assert.Zero(t, all.holding("k"), "late copies are released")
		assert.Zero(t, all.holding("held"), "a release continues after its context")
	})
}

// A grant is released if it arrives after its attempt has failed or was released.
func TestQuorumReleasesLateGrants(t *testing.T) {
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

// A lost request may be executed later. By then a tombstone refuses its owner.
func TestQuorumLeavesATombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		var sent atomic.Pointer[driver.Request]
		stores := []driver.Store{lossy{all[0].mem, &sent}, all[1].mem, all[2].mem}
		q, err := quorumstore.New(stores...)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		l := acquire(t, q, "k", "a")
		require.NoError(t, q.Release(context.Background(), l))
		synctest.Wait()
		require.NotNil(t, sent.Load())
		_, err = all[0].mem.Acquire(context.Background(), *sent.Load())
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		assert.Zero(t, all.holding("k"))
	})
}

// lossy loses requests and passes them to the test.
type lossy struct {
	*memstore.Store
	sent *atomic.Pointer[driver.Request]
}

func (s lossy) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	s.sent.Store(&r)
	return driver.Lease{}, errIO
}

// The copies of a failed attempt are released while the next attempt is under way, so the
// two need different owners.
func TestQuorumAttemptsHaveDifferentOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all[1].losesRequests(down)
		all[2].losesRequests(down)
		all[0].losesRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Release {
				time.Sleep(time.Second) // the release arrives late
			}
			return nil
		})
		_, err := q.Acquire(context.Background(), request("k", "a"))
		require.Error(t, err)
		all.fail(3, nil)
		l := acquire(t, q, "k", "a")
		settle(2 * time.Second)
		require.NoError(t, q.Release(context.Background(), l), "a majority still has the lock")
	})
}

func TestQuorumPermitsNeedMoreThanAMajority(t *testing.T) {
	for _, c := range []struct{ n, limit, need int }{{3, 1, 2}, {3, 2, 3}, {5, 1, 3}, {5, 2, 4}, {5, 3, 4}, {5, 4, 5}, {5, 1000, 5}, {1, 9, 1}, {3, 0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			all, _ := newServers(t, c.n)
			stores := make([]driver.Store, c.n)
			for i := range stores {
				stores[i] = permissive{all[i].mem}
			}
			q, err := quorumstore.New(stores...)
			require.NoError(t, err)
			for alive := range c.n + 1 {
				r := request(fmt.Sprint("k", alive), "a")
				r.Mode, r.Attrs = driver.Permit, &driver.Attrs{Limit: c.limit}
				for _, one := range all[alive:] {
					_, err := one.mem.Acquire(context.Background(), request(r.Key, "other"))
					require.NoError(t, err)
				}
				_, err := q.Acquire(context.Background(), r)
				assert.Equal(t, alive >= c.need, err == nil, "%d of %d for a limit of %d", alive, c.n, c.limit)
			}
			require.NoError(t, q.Close())
		})
	}
}

// permissive treats every mode as exclusive.
type permissive struct{ *memstore.Store }

func (p permissive) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	r.Mode = driver.Exclusive
	return p.Store.Acquire(ctx, r)
}

func TestCallsOnAClosedQuorumFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 3)
		q, err := quorumstore.New(all[0], all[1], all[2])
		require.NoError(t, err)
		l := acquire(t, q, "k", "a")
		all.fail(1, mute)
		acquire(t, q, "j", "a") // one call is still under way
		require.NoError(t, q.Close())
		require.ErrorIs(t, failure(q.Acquire(context.Background(), l.Request)), driver.ErrClosed)
		require.ErrorIs(t, q.Renew(context.Background(), []driver.Lease{l}, make([]renewal.Outcome, 1)), driver.ErrClosed)
		require.ErrorIs(t, q.Release(context.Background(), l), driver.ErrClosed)
		require.ErrorIs(t, failure(all[2].mem.Acquire(context.Background(), l.Request)), driver.ErrClosed, "Close closes the members")
	})
}
