package lock_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// bulkSpy is a store that records the calls of ReleaseAll and first calls a function of the
// test.
type bulkSpy struct {
	*memstore.Store
	before func(ctx context.Context, batch []driver.Lease) error

	mu    sync.Mutex // guards all below
	bulks [][]string // keys
	alone []string
}

func (s *bulkSpy) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	keys := make([]string, len(batch))
	for i := range batch {
		keys[i] = batch[i].Key
	}
	s.mu.Lock()
	s.bulks = append(s.bulks, keys)
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(ctx, batch); err != nil {
			return err
		}
	}
	return s.Store.ReleaseAll(ctx, batch, out)
}

func (s *bulkSpy) Release(ctx context.Context, l driver.Lease) error {
	s.mu.Lock()
	s.alone = append(s.alone, l.Key)
	s.mu.Unlock()
	return s.Store.Release(ctx, l)
}

// holdMany returns a client that holds the keys 0 to n-1 in one or more lanes.
func holdMany(t *testing.T, store driver.Store, n int, lanes ...string) *lock.Client {
	t.Helper()
	c, err := lock.New(store, nil)
	require.NoError(t, err)
	for _, lane := range append(lanes, "")[:max(len(lanes), 1)] {
		for i := range n {
			_, err := c.Mutex(fmt.Sprint(lane, i)).TryLock(t.Context())
			require.NoError(t, err)
		}
	}
	return c
}

func TestCloseReleasesInBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bulkSpy{Store: memstore.New()}
		require.NoError(t, holdMany(t, s, 2500).Close(t.Context()))
		var sizes []int
		seen := make(map[string]bool)
		for _, keys := range s.bulks {
			sizes = append(sizes, len(keys))
			for _, key := range keys {
				assert.False(t, seen[key], "%s twice", key)
				seen[key] = true
			}
		}
		assert.ElementsMatch(t, []int{1000, 1000, 500}, sizes)
		assert.Len(t, seen, 2500)
		assert.Empty(t, s.alone)
	})
}

// someFail is a store that fails the first releases of some keys.
type someFail struct {
	*bulkSpy
	failing map[string]int // suffix of the key → number of failures
}

func (s *someFail) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	err := s.bulkSpy.ReleaseAll(ctx, batch, out)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range batch {
		if s.failing[l.Key] > 0 {
			s.failing[l.Key]--
			out[i] = io.EOF
		}
	}
	return err
}

func TestCloseTriesAgainWhatABulkHasNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &someFail{&bulkSpy{Store: memstore.New()}, map[string]int{"1": 1, "3": 2, "5": 3}}
		err := holdMany(t, s, 7).Close(t.Context())
		require.ErrorIs(t, err, io.EOF)
		require.ErrorContains(t, err, "1 of 7 locks not released")
		require.Len(t, s.bulks, 3)
		assert.Len(t, s.bulks[0], 7)
		assert.ElementsMatch(t, []string{"1", "3", "5"}, s.bulks[1])
		assert.ElementsMatch(t, []string{"3", "5"}, s.bulks[2])
	})
}

// laned is a store with one lane for each first letter of a key.
type laned struct{ *bulkSpy }

func (laned) Lane(l driver.Lease) int { return int(l.Key[0]) }

func TestALaneThatHangsHoldsUpNoReleaseOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := laned{&bulkSpy{Store: memstore.New()}}
		s.before = func(ctx context.Context, batch []driver.Lease) error {
			lanes := make(map[byte]bool)
			for _, l := range batch {
				lanes[l.Key[0]] = true
			}
			assert.Len(t, lanes, 1, "one call is for one lane")
			if !lanes['b'] {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		c := holdMany(t, s, 6000, "a", "b", "c")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := c.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "6000 of 18000 locks not released")
		assert.Equal(t, time.Second, time.Since(start))
		hung := 0
		for _, keys := range s.bulks {
			if strings.HasPrefix(keys[0], "b") {
				hung++
			}
		}
		assert.Equal(t, 4, hung, "calls that hang")
	})
}

func TestABulkReleaseThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bulkSpy{Store: memstore.New()}
		s.before = func(_ context.Context, batch []driver.Lease) error {
			if len(batch) == 500 {
				runtime.Goexit()
			}
			return nil
		}
		err := holdMany(t, s, 1500).Close(t.Context())
		require.ErrorContains(t, err, "500 of 1500 locks not released")
		require.ErrorContains(t, err, "has ended the goroutine")
	})
}
