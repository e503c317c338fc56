package memstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func requested(key, owner string, ttl time.Duration) lock.Request {
	return lock.Request{Key: key, Owner: owner, TTL: ttl}
}

// What has expired is swept while others come, whether or not anybody looks.
func TestWhatIsKeptIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		most := 0
		for round := range 20 {
			for i := range 2 * minSweep {
				name := fmt.Sprint(round, " ", i)
				l, err := s.Acquire(t.Context(), requested(name, name, time.Second))
				require.NoError(t, err)
				if round%2 == 1 { // some rounds leave tombstones instead of leases
					l.Unanswered = true
					require.NoError(t, s.Release(t.Context(), l))
				}
			}
			most = max(most, len(s.keys)+len(s.tombs))
			time.Sleep(2 * tombstone)
		}
		assert.LessOrEqual(t, most, 4*minSweep)
	})
}

// Releases of what is not held leave tombstones, which are swept too.
func TestTombstonesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		most := 0
		for range 5 {
			for i := range 2 * minSweep {
				r := requested("a", fmt.Sprint(time.Now().Unix(), " ", i), time.Hour)
				require.ErrorIs(t, s.Release(t.Context(), lock.Lease{Request: r, Unanswered: true}), lock.ErrNotHeld)
			}
			most = max(most, len(s.tombs))
			time.Sleep(2 * tombstone)
		}
		assert.LessOrEqual(t, most, 4*minSweep)
	})
}

// A sweep takes nothing that lives, not even what it is done for, and the next one
// is due when there is twice as much.
func TestASweepLeavesWhatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		for i := range 4*minSweep + 1 {
			name := fmt.Sprint(i)
			_, err := s.Acquire(t.Context(), requested(name, name, time.Hour))
			require.NoError(t, err)
		}
		assert.Equal(t, 4*minSweep+1, s.Len())
		assert.Equal(t, 8*minSweep, s.sweep)
	})
}

func TestCloseForgets(t *testing.T) {
	s := New()
	l, err := s.Acquire(t.Context(), requested("a", "1", time.Hour))
	require.NoError(t, err)
	_, err = s.Acquire(t.Context(), requested("b", "2", time.Hour))
	require.NoError(t, err)
	l.Unanswered = true
	require.NoError(t, s.Release(t.Context(), l))
	require.NoError(t, s.Close())
	assert.Empty(t, s.keys)
	assert.Empty(t, s.tombs)
}

// A tombstone outlasts the sweeps of its minute.
func TestASweepLeavesTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		given := requested("a", "given up", time.Hour)
		require.ErrorIs(t, s.Release(t.Context(), lock.Lease{Request: given, Unanswered: true}), lock.ErrNotHeld)
		for i := range 3 * minSweep {
			name := fmt.Sprint(i)
			_, err := s.Acquire(t.Context(), requested(name, name, time.Hour))
			require.NoError(t, err)
		}
		time.Sleep(tombstone - 1)
		_, err := s.Acquire(t.Context(), given)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
	})
}

func permit(owner string, ttl time.Duration) lock.Request {
	return lock.Request{Key: "p", Owner: owner, Mode: lock.Permit, TTL: ttl, Extra: &lock.Extra{Limit: 2}}
}

// Who waits for permits gets one when the first of the leases ends, and so does the
// next one after it.
func TestPermitsThatEndGoToThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		_, err := s.Acquire(t.Context(), permit("long", time.Hour))
		require.NoError(t, err)
		_, err = s.Acquire(t.Context(), permit("short", time.Second))
		require.NoError(t, err)
		_, err = s.Acquire(t.Context(), permit("refused", time.Hour))
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, time.Second, held.ExpiresIn, "the first that ends")

		begun := time.Now()
		first := waits(t, s, permit("first", 2*time.Second))
		second := waits(t, s, permit("second", time.Hour))
		require.NoError(t, <-first)
		assert.Equal(t, time.Second, time.Since(begun))
		require.NoError(t, <-second)
		assert.Equal(t, 3*time.Second, time.Since(begun))
	})
}

// waits waits for a lock, and tells the end of it.
func waits(t *testing.T, s *Store, r lock.Request) <-chan error {
	end := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), r)
		end <- err
	}()
	synctest.Wait()
	return end
}

func TestCloseEndsThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		_, err := s.Acquire(t.Context(), requested("a", "1", time.Hour))
		require.NoError(t, err)
		first := waits(t, s, requested("a", "2", time.Hour))
		second := waits(t, s, requested("a", "3", time.Hour))
		begun := time.Now()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-first, lock.ErrClosed)
		require.ErrorIs(t, <-second, lock.ErrClosed)
		assert.Zero(t, time.Since(begun))
		assert.Empty(t, s.keys)
	})
}

// At once, whether or not somebody asks meanwhile.
func TestDeleteGivesTheLockToTheFirst(t *testing.T) {
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := New()
			_, err := s.Acquire(t.Context(), requested("a", "1", time.Hour))
			require.NoError(t, err)
			second := waits(t, s, requested("a", "2", time.Hour))
			begun := time.Now()
			assert.True(t, s.Delete("a"))
			if asked {
				_, err = s.Acquire(context.Background(), requested("a", "3", time.Hour))
				require.ErrorIs(t, err, lock.ErrNotAcquired)
			}
			require.NoError(t, <-second)
			assert.Zero(t, time.Since(begun))
		})
	}
}

// The lease ends before the first of the queue thought it would. Whoever asks
// first, the lock is that one's.
func TestANewcomerGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		_, err := s.Acquire(t.Context(), requested("a", "1", time.Hour))
		require.NoError(t, err)
		second := waits(t, s, requested("a", "2", time.Hour))
		_, err = s.Acquire(t.Context(), requested("a", "1", time.Second))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, err = s.Acquire(t.Context(), requested("a", "3", time.Hour))
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Zero(t, s.Waiting("a"))
		require.NoError(t, <-second)
	})
}
