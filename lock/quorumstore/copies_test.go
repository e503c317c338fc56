package quorumstore_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// ledger is a server that records its requests. It may answer with no more than it must.
type ledger struct {
	driver.Store
	terse bool

	mu       sync.Mutex // guards all below
	acquired []driver.Request
	renewed  []driver.Lease
	released []driver.Lease
}

// ledgers returns n servers that record the requests that reach them, and a quorum of
// them.
func ledgers(t *testing.T, n int) (servers, []*ledger, driver.Store) {
	t.Helper()
	all, q := newServers(t, n)
	var books []*ledger
	for _, s := range all {
		b := &ledger{Store: s.own}
		s.Over(b)
		books = append(books, b)
	}
	return all, books, q
}

func (b *ledger) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	b.mu.Lock()
	b.acquired = append(b.acquired, r)
	b.mu.Unlock()
	l, err := b.Store.Acquire(ctx, r)
	if b.terse {
		l.Request = driver.Request{}
	}
	return l, err
}

func (b *ledger) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	b.mu.Lock()
	b.renewed = append(b.renewed, batch...)
	b.mu.Unlock()
	return b.Store.Renew(ctx, batch, out)
}

func (b *ledger) Release(ctx context.Context, l driver.Lease) error {
	b.mu.Lock()
	b.released = append(b.released, l)
	b.mu.Unlock()
	return b.Store.Release(ctx, l)
}

func (b *ledger) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	for i := range batch {
		out[i] = b.Release(ctx, batch[i])
	}
	return nil
}

func release(t *testing.T, q driver.Store, l driver.Lease) {
	t.Helper()
	require.NoError(t, q.Release(context.Background(), l))
	synctest.Wait()
}

// Renewals and releases carry the lease's current mode and attributes, whether or not the
// member answered the last change.
func TestQuorumMembersGetTheCurrentLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		r := request("k", "a")
		r.Mode = driver.Write
		_, err := q.Acquire(context.Background(), r)
		require.NoError(t, err)
		synctest.Wait()
		all[0].losesAnswers(once(locktest.Acquire, errIO))
		r.Mode, r.TTL, r.Attrs = driver.Read, ttl/2, &driver.Attrs{Metadata: "m"}
		l, err := q.Acquire(context.Background(), r)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
		release(t, q, l)
		for i, b := range books {
			for _, told := range []driver.Lease{b.renewed[0], b.released[0]} {
				assert.Equal(t, driver.Read, told.Mode, "server %d", i)
				assert.Equal(t, ttl/2, told.TTL)
				assert.Equal(t, "m", told.Metadata())
			}
		}
	})
}

// An unanswered request may be executed after a later request that was answered.
func TestQuorumRemembersUnansweredRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		all[0].losesAnswers(once(locktest.Acquire, errIO))
		acquire(t, q, "k", "a")
		l := acquire(t, q, "k", "a")
		release(t, q, l)
		for i, b := range books {
			require.Len(t, b.released, 1)
			assert.Equal(t, i == 0, b.released[0].Unanswered, "server %d", i)
		}
		_, err := all[0].mem.Acquire(context.Background(), books[0].acquired[0])
		require.ErrorIs(t, err, driver.ErrNotAcquired, "the owner has a tombstone")
	})
}

// A request that is under way during a release must not be executed after it.
func TestQuorumReleaseReportsRequestsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		all[0].losesRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				time.Sleep(time.Second)
			}
			return nil
		})
		l := acquire(t, q, "k", "a")
		release(t, q, l)
		for i, b := range books {
			require.Len(t, b.released, 1)
			assert.Equal(t, i == 0, b.released[0].Unanswered, "server %d", i)
		}
		settle(time.Second)
		assert.Zero(t, all.holding("k"))
	})
}

// A later refusal does not clear the note of an unanswered request.
func TestQuorumRemembersUnansweredRequestsAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		all[0].losesRequests(once(locktest.Acquire, errIO)) // the request is executed later
		acquire(t, q, "k", "a")
		_, err := all[0].mem.Acquire(context.Background(), request("k", "rival"))
		require.NoError(t, err)
		l := acquire(t, q, "k", "a")
		release(t, q, l)
		require.Len(t, books[0].released, 1)
		all[0].mem.Delete("k")
		_, err = all[0].mem.Acquire(context.Background(), books[0].acquired[0])
		require.ErrorIs(t, err, driver.ErrNotAcquired, "the owner has a tombstone")
	})
}

// A store need not repeat the request in its answer.
func TestQuorumOfStoresWithMinimalAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		for _, b := range books {
			b.terse = true
		}
		l := acquire(t, q, "k", "a")
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
		release(t, q, l)
		assert.Zero(t, all.holding("k"))
	})
}

// A member that refused the Acquire receives no renewals and no releases.
func TestQuorumAsksOnlyMembersWithACopy(t *testing.T) {
	for name, refusal := range map[string]error{"taken": &driver.HeldError{}, "no lock": driver.ErrWrongType} {
		synctest.Test(t, func(t *testing.T) {
			all, books, q := ledgers(t, 3)
			all[1].losesRequests(once(locktest.Acquire, refusal))
			l := acquire(t, q, "k", "a")
			assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
			release(t, q, l)
			for i, b := range books {
				assert.Equal(t, i != 1, len(b.renewed) == 1, "%s: server %d", name, i)
				assert.Equal(t, i != 1, len(b.released) == 1, "%s: server %d", name, i)
			}
		})
	}
}

// A repeated release goes to the members that have not confirmed it.
func TestQuorumRepeatsUnconfirmedReleases(t *testing.T) {
	ways := map[string]func(q driver.Store, l driver.Lease) error{
		"alone": func(q driver.Store, l driver.Lease) error { return q.Release(ctx, l) },
		"in bulk": func(q driver.Store, l driver.Lease) error {
			out := make([]error, 1)
			return errors.Join(q.ReleaseAll(ctx, []driver.Lease{l}, out), out[0])
		},
	}
	for name, gone := range map[string]error{"not held": driver.ErrNotHeld, "no lock": driver.ErrWrongType} {
		for way, release := range ways {
			synctest.Test(t, func(t *testing.T) {
				all, books, q := ledgers(t, 3)
				l := acquire(t, q, "k", "a")
				all[0].losesRequests(down)
				all[1].losesAnswers(once(locktest.Release, gone))
				err := release(q, l)
				require.ErrorContains(t, err, "no majority confirmed the release: ", "%s %s", name, way)
				require.ErrorContains(t, err, "store 0: ")
				synctest.Wait() // wait for the first attempt in the background
				all[0].losesRequests(nil)
				require.NoError(t, release(q, l))
				synctest.Wait()
				for i, b := range books {
					assert.Len(t, b.released, 1, "%s %s: server %d", name, way, i)
				}
			})
		}
	}
}

// A lease that Release could not release is released in the background, once for all
// calls. Until then its owner cannot acquire the lock.
func TestQuorumReleasesInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		l := acquire(t, q, "k", "a")
		all.fail(2, down)
		for range 5 {
			require.ErrorIs(t, q.Release(context.Background(), l), errIO)
		}
		_, err := q.Acquire(context.Background(), l.Request)
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		require.ErrorContains(t, err, "given up")
		settle(time.Second)
		all.fail(2, nil)
		assert.Equal(t, 2, all.holding("k"))
		settle(ttl - 2*time.Second)
		assert.Zero(t, all.holding("k"))
		for i, b := range books {
			assert.Len(t, b.released, 1, "server %d", i)
		}
	})
}

// Close releases the copies of a failed attempt, for at most a second.
func TestQuorumReleasesCopiesBeforeItCloses(t *testing.T) {
	for delay, want := range map[time.Duration]struct {
		took time.Duration
		left int
	}{
		200 * time.Millisecond: {300 * time.Millisecond, 0}, // Close interrupts the call, and repeats it after 100 ms
		time.Minute:            {time.Second, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			all, q := newServers(t, 3)
			all.fail(2, down)
			all[2].losesRequests(func(ctx context.Context, op locktest.Op) error {
				if op != locktest.Release {
					return nil
				}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(delay):
					return nil
				}
			})
			require.ErrorIs(t, failure(q.Acquire(ctx, request("k", "a"))), errIO)
			synctest.Wait()
			start := time.Now()
			require.NoError(t, q.Close())
			assert.Equal(t, want.took, time.Since(start))
			assert.Equal(t, want.left, all.holding("k"))
		})
	}
}

// Release needs a majority, and waits for servers that are as fast as the majority.
func TestQuorumReleaseWaitsForTheRestAsLongAgain(t *testing.T) {
	for third, want := range map[time.Duration]time.Duration{
		0:                      100 * time.Millisecond,
		150 * time.Millisecond: 150 * time.Millisecond,
		time.Second:            200 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			all, q := newServers(t, 3)
			l := acquire(t, q, "k", "a")
			all.fail(2, slow(100*time.Millisecond))
			all[2].losesRequests(slow(third))
			start := time.Now()
			require.NoError(t, q.Release(context.Background(), l))
			assert.Equal(t, want, time.Since(start))
			settle(time.Second)
			assert.Zero(t, all.holding("k"), "the release at the third server continues")
		})
	}
}

// A member whose Acquire is still unanswered may have a copy. A release at the other
// members alone could report that a majority has none.
func TestQuorumReleasesUnansweredAcquires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		only := func(op locktest.Op, f fault) fault {
			return func(ctx context.Context, of locktest.Op) error {
				if of != op {
					return nil
				}
				return f(ctx, of)
			}
		}
		all[0].losesAnswers(only(locktest.Acquire, slow(ttl/10)))
		l, err := q.Acquire(context.Background(), request("k", "a"))
		require.NoError(t, err)
		all[1].losesRequests(only(locktest.Release, down))
		all[2].losesAnswers(only(locktest.Release, down))
		for range 2 {
			err = q.Release(context.Background(), l)
			require.Error(t, err)
			require.NotErrorIs(t, err, driver.ErrNotHeld, "an unanswered member may have a copy")
			assert.Less(t, all.holding("k"), 2)
		}
	})
}

func TestQuorumOfStoresThatExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		exit := func(context.Context, locktest.Op) error {
			runtime.Goexit()
			return nil
		}
		all.fail(2, exit)
		start := time.Now()
		_, err := q.Acquire(context.Background(), request("k", "a"))
		require.ErrorContains(t, err, "2 of 3 stores failed: ")
		require.ErrorContains(t, err, "goroutine")
		assert.Zero(t, time.Since(start))
		synctest.Wait()
		assert.Zero(t, all.holding("k"))
		all.fail(1, nil)
		l := acquire(t, q, "k", "b")
		all.fail(2, exit)
		require.ErrorContains(t, q.Release(context.Background(), l), "no majority confirmed the release: ")
		all.fail(2, nil)
		settle(time.Second)
		assert.Zero(t, all.holding("k"), "the copies are released in the background")
	})
}
