package memstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// A key whose state stays locked does not block other keys.
func TestALockedKeyDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, testOthers)
}

func testOthers(t *testing.T) {
	ctx := context.Background()
	s := New()
	_, err := s.Acquire(ctx, requestFor("slow", "1", time.Hour))
	require.NoError(t, err)
	time.Sleep(24 * time.Hour) // now a check of the key is due
	k, _ := s.keys.get("slow")
	k.mu.Lock()
	defer k.mu.Unlock()
	l, err := s.Acquire(ctx, requestFor("other", "2", time.Hour))
	require.NoError(t, err)
	out := make([]renewal.Outcome, 1)
	require.NoError(t, s.Renew(ctx, []driver.Lease{l}, out))
	assert.Equal(t, renewal.Renewed, out[0])
	l, err = s.Wait(ctx, requestFor("third", "3", time.Hour))
	require.NoError(t, err)
	l.Unanswered = true
	require.NoError(t, s.Release(ctx, l))
	_, err = s.Acquire(ctx, l.Request)
	require.ErrorIs(t, err, errAbandoned)
	_, err = s.Inspect(ctx, "other")
	require.NoError(t, err)
	require.NoError(t, s.ForceRelease(ctx, "other"))
	require.Equal(t, 1, s.keys.n, "the slow key is still present")
	assert.NotNil(t, k.node.list, "its check is scheduled again")
}

// advanceAll ends expired leases and serves waiters until nothing remains to be done. It
// returns the greatest change to the number of holders under one lock of the mutex, and
// whether it needed several.
func advanceAll(s *Store, k *state) (most int, several bool) {
	for n := 1; ; n++ {
		k.mu.Lock()
		before := k.holders.n
		done := s.advance(k, time.Now())
		most = max(most, before-k.holders.n, k.holders.n-before)
		k.mu.Unlock()
		if done {
			return most, n > 1
		}
	}
}

// When many leases end together, or many waiters are served together, the mutex is
// released in between, so that other callers get their turn.
func TestTheWorkUnderOneLockIsBounded(t *testing.T) {
	const n = 3*maxWorkPerLock + 10
	synctest.Test(t, func(t *testing.T) {
		s := New()
		reader := func(i int) driver.Request {
			return driver.Request{Key: "k", Owner: fmt.Sprint(i), Mode: driver.Read, TTL: time.Minute}
		}
		for i := range n {
			_, err := s.Acquire(t.Context(), reader(i))
			require.NoError(t, err)
		}
		k, _ := s.keys.get("k")
		most, several := advanceAll(s, k)
		require.Zero(t, most)
		require.False(t, several)
		time.Sleep(time.Minute)
		most, several = advanceAll(s, k)
		assert.Equal(t, maxWorkPerLock, most)
		assert.True(t, several)
		assert.Zero(t, k.holders, "no leases remain")

		_, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "writer", Mode: driver.Write, TTL: time.Hour})
		require.NoError(t, err)
		ends := make(chan error, n)
		for i := range n {
			go func() {
				_, err := s.Wait(t.Context(), reader(i))
				ends <- err
			}()
		}
		synctest.Wait()
		require.Equal(t, n, s.Waiting("k"))
		k, _ = s.keys.get("k")
		k.mu.Lock()
		k.drop(k.holders.first)
		k.mu.Unlock()
		most, several = advanceAll(s, k) // waiters that are served first call advance, too
		assert.LessOrEqual(t, most, maxWorkPerLock)
		assert.True(t, several)
		for range n {
			require.NoError(t, <-ends)
		}
		assert.Equal(t, n, k.holders.n)
		assert.Zero(t, k.queue, "no waiters remain")
		assert.True(t, s.Delete("k"))
		assert.Zero(t, s.keys.n)
	})
}

func batch(owner string, members ...string) driver.Request {
	return driver.Request{Key: "g", Owner: owner, Mode: driver.Members, TTL: time.Hour, Attrs: &driver.Attrs{Members: members}}
}

// A waiter is checked only when one of its members becomes free, or it becomes the first
// waiter for a member.
func TestWaitersAreCheckedOnlyForFreedMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		big := make([]string, 1000)
		for i := range big {
			big[i] = fmt.Sprintf("m%04d", i)
		}
		held, err := s.Acquire(t.Context(), batch("holder", big...))
		require.NoError(t, err)
		other, err := s.Acquire(t.Context(), batch("other", "x"))
		require.NoError(t, err)
		const n = 50
		var ends []<-chan error
		for i := range n {
			ends = append(ends, startWait(t, s, batch(fmt.Sprint(i), big...)))
		}
		k, _ := s.keys.get("g")
		require.NoError(t, s.Release(t.Context(), other))
		for w := k.head; w != nil; w = w.next {
			require.Equal(t, len(big), w.blocked)
		}
		require.NoError(t, s.Release(t.Context(), held))
		for i, end := range ends {
			require.NoError(t, <-end)
			if k.head != nil {
				assert.Equal(t, len(big), k.head.blocked, "the next waiter is blocked by every member")
			}
			require.NoError(t, s.Release(t.Context(), driver.Lease{Request: batch(fmt.Sprint(i))}))
		}
		assert.Zero(t, s.keys.n)
		assert.Zero(t, k.members.n)
	})
}

// Ended tombstones release their memory while other calls add fewer tombstones, or none.
func TestTombstonesReleaseTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		const n = 20_000
		for i := range n {
			r := requestFor("a", fmt.Sprint(i), time.Hour)
			require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
			if i%2 == 0 {
				time.Sleep(time.Microsecond)
				require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
			}
		}
		require.Equal(t, n, s.tombstones.ends.n)
		time.Sleep(24 * time.Hour)
		for i := range n {
			l, err := s.Acquire(t.Context(), requestFor("a", fmt.Sprint("later ", i), time.Second))
			require.NoError(t, err)
			require.NoError(t, s.Release(t.Context(), l))
		}
		assert.Zero(t, s.tombstones.ends.n)
		assert.Nil(t, s.tombstones.first)
		leaves, _ := s.tombstones.ends.root.leaves()
		assert.Equal(t, 1, leaves)
		assert.Zero(t, s.keys.n)
	})
}
