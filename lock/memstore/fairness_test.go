package memstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func batch(owner string, members ...string) driver.Request {
	return driver.Request{Key: "g", Owner: owner, Mode: driver.Members, TTL: time.Hour, Attrs: &driver.Attrs{Members: members}}
}

// A batch that waits is granted as soon as all its members are free, and not before batches ahead of
// it that want one of them.
func TestBatchesAreServedInOrderWhereTheyMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		held, err := s.Acquire(t.Context(), batch("holder", "a", "b"))
		require.NoError(t, err)
		first := startWait(t, s, batch("first", "b", "c"))
		second := startWait(t, s, batch("second", "c", "d"))
		third := startWait(t, s, batch("third", "e"))
		require.NoError(t, <-third)
		_, err = s.Acquire(t.Context(), batch("early", "d"))
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		require.NoError(t, s.Release(t.Context(), held))
		require.NoError(t, <-first)
		require.Equal(t, 1, s.Waiting("g"))
		require.NoError(t, s.Release(t.Context(), driver.Lease{Request: batch("first")}))
		require.NoError(t, <-second)
		for _, owner := range []string{"second", "third"} {
			require.NoError(t, s.Release(t.Context(), driver.Lease{Request: batch(owner)}))
		}
		assert.Empty(t, s.keys)
		assert.Empty(t, s.all)
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

// List returns each lock that is held all the time, whatever comes and goes between its calls.
func TestListMissesNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rng := New(), rand.New(rand.NewPCG(1, 1))
		acquire := func(name string, ttl time.Duration) {
			_, err := s.Acquire(t.Context(), requestFor(name, name, ttl))
			require.NoError(t, err)
		}
		want := map[string]bool{}
		for i := range 3000 {
			name := fmt.Sprint("held ", i)
			want[name] = true
			acquire(name, time.Hour)
			acquire(fmt.Sprint("short ", i), time.Duration(1+rng.IntN(20))*time.Second)
		}
		got, calls := map[string]bool{}, 0
		for cursor := ""; calls == 0 || cursor != ""; calls++ {
			keys, next, err := s.List(t.Context(), "held", cursor)
			require.NoError(t, err)
			for _, key := range keys {
				got[key] = true
			}
			cursor = next
			time.Sleep(time.Second)
			for i := range 100 {
				acquire(fmt.Sprint("new ", calls, i), time.Duration(1+rng.IntN(5))*time.Second)
				s.Delete(fmt.Sprint("short ", rng.IntN(3000)))
			}
		}
		assert.Greater(t, calls, 3)
		assert.Equal(t, want, got)
	})
}
