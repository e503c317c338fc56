package memstore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

const many = 1024

func tombstoneCount(s *Store) int { return len(s.refused.until) + len(s.refused.order) }

func requestFor(key, owner string, ttl time.Duration) driver.Request {
	return driver.Request{Key: key, Owner: owner, TTL: ttl}
}

// Expired leases are removed while new ones are acquired, even if their keys are never
// used again.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		most := 0
		for round := range 20 {
			for i := range 2 * many {
				name := fmt.Sprint(round, " ", i)
				l, err := s.Acquire(t.Context(), requestFor(name, name, time.Second))
				require.NoError(t, err)
				if round%2 == 1 { // odd rounds leave tombstones instead of leases
					l.Unanswered = true
					require.NoError(t, s.Release(t.Context(), l))
				}
			}
			most = max(most, len(s.keys)+tombstoneCount(s))
			time.Sleep(2 * tombstoneTime)
		}
		assert.LessOrEqual(t, most, 4*many)
	})
}

// A sweep keeps leases that have not ended.
func TestASweepKeepsLiveLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		for i := range many {
			name := fmt.Sprint(i)
			l, err := s.Acquire(t.Context(), requestFor(name, name, 100*time.Second))
			require.NoError(t, err)
			if i%2 == 0 {
				l.TTL = time.Hour
				require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)))
			}
		}
		time.Sleep(10 * time.Minute)
		for i := range many {
			name := fmt.Sprint("later ", i)
			_, err := s.Acquire(t.Context(), requestFor(name, name, time.Hour))
			require.NoError(t, err)
		}
		assert.Len(t, s.keys, many+many/2)
		assert.Equal(t, many+many/2, s.Len())
		time.Sleep(50 * time.Minute)
		assert.Equal(t, many, s.Len())
		assert.Len(t, s.keys, many, "Len removes expired keys")
	})
}

func TestCloseRemovesEverything(t *testing.T) {
	s := New()
	l, err := s.Acquire(t.Context(), requestFor("a", "1", time.Hour))
	require.NoError(t, err)
	_, err = s.Acquire(t.Context(), requestFor("b", "2", time.Hour))
	require.NoError(t, err)
	l.Unanswered = true
	require.NoError(t, s.Release(t.Context(), l))
	require.NoError(t, s.Close())
	assert.Zero(t, s.keys)
	assert.Zero(t, s.refused)
}

// startWait calls Wait in a goroutine and returns the channel of its error.
func startWait(t *testing.T, s *Store, r driver.Request) <-chan error {
	end := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), r, func() {})
		end <- err
	}()
	synctest.Wait()
	return end
}

func TestCloseEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		_, err := s.Acquire(t.Context(), requestFor("a", "1", time.Hour))
		require.NoError(t, err)
		first := startWait(t, s, requestFor("a", "2", time.Hour))
		second := startWait(t, s, requestFor("a", "3", time.Hour))
		begun := time.Now()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-first, driver.ErrClosed)
		require.ErrorIs(t, <-second, driver.ErrClosed)
		assert.Zero(t, time.Since(begun))
		assert.Zero(t, s.keys)
	})
}

// A newcomer that notices the end of a lease does not overtake the waiter, which wakes up at
// the same moment.
func TestANewcomerDoesNotOvertakeAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		_, err := s.Acquire(t.Context(), requestFor("a", "1", time.Second))
		require.NoError(t, err)
		second := startWait(t, s, requestFor("a", "2", time.Hour))
		time.Sleep(time.Second)
		_, err = s.Acquire(t.Context(), requestFor("a", "3", time.Hour))
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		assert.Zero(t, s.Waiting("a"))
		require.NoError(t, <-second)
	})
}

// A tombstone lasts for a minute, and is gone after two.
func TestTombstonesReleaseTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		refused := func(owner string) bool {
			l, err := s.Acquire(t.Context(), requestFor("a", owner, time.Second))
			if err == nil {
				require.NoError(t, s.Release(t.Context(), l))
			}
			return err != nil
		}
		for i := range 180 { // one in each second, so that some are added right before and after others end
			r := requestFor("a", fmt.Sprint(i), time.Hour)
			require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
			require.True(t, refused(fmt.Sprint(i)))
			require.True(t, refused(fmt.Sprint(max(i-59, 0))))
			require.False(t, i >= 120 && refused(fmt.Sprint(i-120)))
			time.Sleep(time.Second)
		}
		time.Sleep(2 * tombstoneTime)
		require.False(t, refused("179"))
		assert.Zero(t, tombstoneCount(s))
		assert.Empty(t, s.keys)
	})
}

// A tombstone lasts its full minute, however often the store sweeps.
func TestASweepKeepsTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		given := requestFor("a", "given up", time.Hour)
		require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: given, Unanswered: true}), driver.ErrNotHeld)
		for i := range 3 * many {
			name := fmt.Sprint(i)
			_, err := s.Acquire(t.Context(), requestFor(name, name, time.Hour))
			require.NoError(t, err)
		}
		time.Sleep(tombstoneTime - 1)
		_, err := s.Acquire(t.Context(), given)
		require.ErrorIs(t, err, driver.ErrNotAcquired)
	})
}
