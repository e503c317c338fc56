package quorumstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
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
			"127.0.0.1:6379", "localhost:6379", "LOCALHOST:6379", "localhost.:6379",
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

// describedStore is a store that says what the test wants.
type describedStore struct {
	driver.Store
	is driver.Description
}

func (s *describedStore) Describe() driver.Description { return s.is }

// The limits are those of TestAQuorumHasTheTightestLimits.
func TestAQuorumSaysWhatItsMembersSay(t *testing.T) {
	modes := driver.ModesOf
	q, err := quorumstore.New(
		&describedStore{memstore.New(), driver.Description{
			Waits: true, ReleasesAll: true, Inspects: true, TimesWaiters: true, Lists: true, SetsMetadata: true, Saves: true, Imports: true,
			Keeps:     modes(driver.Exclusive, driver.Members),
			Yields:    modes(driver.Exclusive),
			Unordered: modes(driver.Exclusive),
			Addresses: []string{"a:1", "a:2"},
			Replicas:  driver.ReplicaStats{Enough: 1, TooFew: 2, Unanswered: 3},
		}},
		&describedStore{memstore.New(), driver.Description{ReleasesAll: true, Lists: true, Keeps: modes(driver.Exclusive, driver.Read)}},
		&describedStore{memstore.New(), driver.Description{
			ReleasesAll: true, Inspects: true, SetsMetadata: true,
			Keeps:     modes(driver.Exclusive),
			Addresses: []string{"b:1"},
			Replicas:  driver.ReplicaStats{Enough: 10, TooFew: 20, Unanswered: 30},
		}},
	)
	require.NoError(t, err)
	want := driver.Description{
		ReleasesAll: true,

		Keeps:     modes(driver.Exclusive),
		Addresses: []string{"a:1", "a:2", "b:1"},
		Replicas:  driver.ReplicaStats{Enough: 11, TooFew: 22, Unanswered: 33},
	}
	assert.Equal(t, want, q.Describe())
	require.NoError(t, q.Close())
	assert.Equal(t, want, q.Describe())
	assert.Zero(t, testing.AllocsPerRun(100, func() { q.Describe() }), "the client asks often")
}

// limitedStore is a store with limits, whose session was renewed before the Acquire.
type limitedStore struct {
	driver.Store
	limits driver.TTLLimits
	age    time.Duration
	asked  int
}

func (s *limitedStore) Describe() driver.Description { return driver.Description{TTL: s.limits} }

func (s *limitedStore) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	s.asked++
	l, err := s.Store.Acquire(ctx, r)
	l.Sent = time.Now().Add(-s.age)
	return l, err
}

func TestAQuorumHasTheTightestLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []driver.TTLLimits
		want    driver.TTLLimits
	}{
		{"none", make([]driver.TTLLimits, 3), driver.TTLLimits{}},
		{"one member", []driver.TTLLimits{{}, {Min: 2, Max: 9, Slack: 3, Shared: true}}, driver.TTLLimits{Min: 2, Max: 9, Slack: 3, Shared: true}},
		{"bounds", []driver.TTLLimits{{Min: 1, Max: 9}, {Min: 2, Max: 7}, {Min: 1}}, driver.TTLLimits{Min: 2, Max: 7}},
		{"equal steps", []driver.TTLLimits{{Step: 4, Slack: 1}, {Step: 4}}, driver.TTLLimits{Step: 4, Slack: 1}},
		{"other steps", []driver.TTLLimits{{Step: 4, Slack: 1}, {Step: 3}, {}}, driver.TTLLimits{Slack: 5}},
	} {
		var stores []driver.Store
		for _, limits := range c.members {
			stores = append(stores, &limitedStore{Store: memstore.New(), limits: limits})
		}
		q, err := quorumstore.New(stores...)
		require.NoError(t, err)
		assert.Equal(t, c.want, q.Describe().TTL, c.name)
		for ttl := range 20 * time.Nanosecond {
			for _, limits := range c.members {
				assert.GreaterOrEqual(t, q.Describe().TTL.Longest(ttl), limits.Longest(ttl), c.name)
			}
		}
		require.NoError(t, q.Close())
	}
}

func TestAQuorumRefusesATTLThatAMemberRefuses(t *testing.T) {
	free := &limitedStore{Store: memstore.New()}
	q, err := quorumstore.New(&limitedStore{Store: memstore.New(), limits: driver.TTLLimits{Max: 10 * time.Second}}, free, memstore.New())
	require.NoError(t, err)
	defer q.Close()
	_, err = q.Acquire(t.Context(), driver.Request{Key: "orders", Owner: "o", TTL: 11 * time.Second})
	require.ErrorIs(t, err, driver.ErrBadTTL)
	require.ErrorContains(t, err, "at most 10s")
	assert.Zero(t, free.asked, "no member is asked")
	_, err = lock.New(q, nil)
	require.ErrorIs(t, err, lock.ErrBadTTL, "the default TTL is too long")
}

func TestALeaseOfAQuorumIsAsOldAsItsOldestCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &limitedStore{Store: memstore.New(), age: 7 * time.Second}
		q, err := quorumstore.New(old, &limitedStore{Store: memstore.New(), age: 3 * time.Second})
		require.NoError(t, err)
		defer q.Close()
		l, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: "o", TTL: ttl})
		require.NoError(t, err)
		assert.Equal(t, 7*time.Second, time.Since(l.Sent))

		old.age = ttl
		_, err = q.Acquire(t.Context(), driver.Request{Key: "other", Owner: "o", TTL: ttl})
		require.ErrorContains(t, err, "too late", "the copy may have ended")
	})
}

// failOnly makes exactly those servers fail whose bits are set.
func (s servers) failOnly(bits int) {
	for i, one := range s {
		if bits>>i&1 == 1 {
			one.losesRequests(down)
		} else {
			one.losesRequests(nil)
		}
	}
}

// While the stores of a quorum are changed, processes with the old and the new set run
// together. Sets that differ by one store exclude each other, whichever majority the
// first holder got.
func TestQuorumsThatDifferByOneStoreExcludeEachOther(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for _, grows := range []bool{true, false} {
			t.Run(fmt.Sprintf("of %d and %d, larger set is newer: %t", n, n+1, grows), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all, large := newServers(t, n+1)
					before, after := all[:n].quorum(t), large
					if !grows {
						before, after = after, before
					}
					held := 0
					for bits := range 1 << len(all) {
						key := fmt.Sprint("k", bits)
						all.failOnly(bits)
						_, err := before.Acquire(context.Background(), request(key, "a"))
						synctest.Wait()
						if err != nil {
							continue
						}
						held++
						all.failOnly(0)
						_, err = after.Acquire(context.Background(), request(key, "b"))
						synctest.Wait()
						assert.ErrorIs(t, err, driver.ErrNotAcquired, "servers %b were down at first", bits)
					}
					assert.Positive(t, held)
				})
			})
		}
	}
}

// Permits of sets that differ by one store stay within the limit, in any order of
// requests.
func TestPermitsOfQuorumsThatDifferByOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2
		const asked = limit + 1
		all, large := newServers(t, 3)
		sets := []driver.Store{all[:2].quorum(t), large}
		most := 0
		for way := range 1 << (asked * (1 + len(all))) {
			granted := 0
			for i, rest := 0, way; i < asked; i++ {
				all.failOnly(rest >> 1 & (1<<len(all) - 1))
				r := request(fmt.Sprint("k", way), fmt.Sprint("owner", i))
				r.Mode, r.Attrs = driver.Permit, &driver.Attrs{Limit: limit}
				if _, err := sets[rest&1].Acquire(context.Background(), r); err == nil {
					granted++
				}
				synctest.Wait()
				rest >>= 1 + len(all)
			}
			assert.LessOrEqual(t, granted, limit, "order %b", way)
			most = max(most, granted)
		}
		assert.Equal(t, limit, most)
	})
}

// Replacing a store in one step makes two sets whose majorities may have no store in
// common.
func TestQuorumsThatDifferByTwoStoresDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := newServers(t, 4)
		before := all[:3].quorum(t)
		after := servers{all[0], all[1], all[3]}.quorum(t)
		all.failOnly(0b0001)
		acquire(t, before, "k", "a")
		all.failOnly(0b0010)
		acquire(t, after, "k", "b")
		assert.Equal(t, 4, all.holding("k"), "two servers for each quorum")
	})
}
