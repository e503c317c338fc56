package lock_test

import (
	"context"
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

// ledger is a server that notes what it is asked, and may be one that answers nothing
// more than it has to.
type ledger struct {
	lock.Store
	terse bool

	mu       sync.Mutex // guards all below
	acquired []lock.Request
	renewed  []lock.Lease
	released []lock.Lease
}

// ledgers returns n servers that note what gets through to them, and a quorum of them.
func ledgers(t *testing.T, n int) (servers, []*ledger, lock.Store) {
	t.Helper()
	all, q := newServers(t, n)
	var books []*ledger
	for _, s := range all {
		b := &ledger{Store: s.mem}
		s.Store = b
		books = append(books, b)
	}
	return all, books, q
}

func (b *ledger) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	b.mu.Lock()
	b.acquired = append(b.acquired, r)
	b.mu.Unlock()
	l, err := b.Store.Acquire(ctx, r)
	if b.terse {
		l.Request = lock.Request{}
	}
	return l, err
}

func (b *ledger) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	b.mu.Lock()
	b.renewed = append(b.renewed, batch...)
	b.mu.Unlock()
	return b.Store.Renew(ctx, batch, out)
}

func (b *ledger) Release(ctx context.Context, l lock.Lease) error {
	b.mu.Lock()
	b.released = append(b.released, l)
	b.mu.Unlock()
	return b.Store.Release(ctx, l)
}

func release(t *testing.T, q lock.Store, l lock.Lease) {
	t.Helper()
	require.NoError(t, q.Release(context.Background(), l))
	synctest.Wait()
}

// What a member is asked to renew and to release is what the lease is now, whether or
// not its own answer to the last change came.
func TestQuorumMembersAreToldWhatALeaseIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		r := request("k", "a")
		r.Mode = lock.Write
		_, err := q.Acquire(context.Background(), r)
		require.NoError(t, err)
		synctest.Wait()
		all[0].losesAnswers(once(locktest.Acquire, errIO))
		r.Mode, r.TTL, r.Extra = lock.Read, ttl/2, &lock.Extra{Metadata: "m"}
		l, err := q.Acquire(context.Background(), r)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, q, l))
		release(t, q, l)
		for i, b := range books {
			for _, told := range []lock.Lease{b.renewed[0], b.released[0]} {
				assert.Equal(t, lock.Read, told.Mode, "server %d", i)
				assert.Equal(t, ttl/2, told.TTL)
				assert.Equal(t, "m", told.Metadata())
			}
		}
	})
}

// A request without an answer may be executed after one that was answered.
func TestQuorumRemembersWhatWasNotAnswered(t *testing.T) {
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
		require.ErrorIs(t, err, lock.ErrNotAcquired, "its owner is refused")
	})
}

// Nor may one be executed after the release that was under way at that time.
func TestQuorumReleaseTellsWhatIsUnderWay(t *testing.T) {
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

// Neither is it forgotten because a later one was refused.
func TestQuorumRemembersWhatWasNotAnsweredBeforeARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		all[0].losesRequests(once(locktest.Acquire, errIO)) // which comes later
		acquire(t, q, "k", "a")
		_, err := all[0].mem.Acquire(context.Background(), request("k", "rival"))
		require.NoError(t, err)
		l := acquire(t, q, "k", "a")
		release(t, q, l)
		require.Len(t, books[0].released, 1)
		all[0].mem.Delete("k")
		_, err = all[0].mem.Acquire(context.Background(), books[0].acquired[0])
		require.ErrorIs(t, err, lock.ErrNotAcquired, "its owner is refused")
	})
}

// A store need not say again what it was asked.
func TestQuorumOfStoresThatAnswerLittle(t *testing.T) {
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

// Who has refused has nothing to be renewed or released.
func TestQuorumAsksOnlyThoseWhoHaveIt(t *testing.T) {
	for name, refusal := range map[string]error{"taken": &lock.HeldError{}, "no lock": lock.ErrWrongType} {
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

// A release that is asked for again goes to those that have not confirmed it.
func TestQuorumReleasesTheRest(t *testing.T) {
	for name, gone := range map[string]error{"not held": lock.ErrNotHeld, "no lock": lock.ErrWrongType} {
		synctest.Test(t, func(t *testing.T) {
			all, books, q := ledgers(t, 3)
			l := acquire(t, q, "k", "a")
			all[0].losesRequests(down)
			all[1].losesAnswers(once(locktest.Release, gone))
			err := q.Release(context.Background(), l)
			require.ErrorContains(t, err, "no majority confirmed the release: ", name)
			require.ErrorContains(t, err, "store 0: ")
			synctest.Wait() // for the first try in the background
			all[0].losesRequests(nil)
			release(t, q, l)
			for i, b := range books {
				assert.Len(t, b.released, 1, "%s: server %d", name, i)
			}
		})
	}
}

// What could not be released is released in the background, once, however often it is
// asked for; and its owner gets nothing meanwhile.
func TestQuorumReleasesInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, books, q := ledgers(t, 3)
		l := acquire(t, q, "k", "a")
		all.fail(2, down)
		for range 5 {
			require.ErrorIs(t, q.Release(context.Background(), l), errIO)
		}
		_, err := q.Acquire(context.Background(), l.Request)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
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

// A majority is enough, and those that are as quick as it are waited for.
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
			assert.Zero(t, all.holding("k"), "the third goes on")
		})
	}
}
