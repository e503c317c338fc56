package storekit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// stuck is a store whose Release blocks until the test allows it, and ignores its ctx.
type stuck struct {
	yes
	released chan struct{}
}

func (s *stuck) Release(context.Context, driver.Lease) error {
	<-s.released
	return nil
}

func TestTheReleaserTakesSoManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{released: make(chan struct{})}
		r := NewReleaser(s, slog.New(slog.DiscardHandler))
		add := func(i int) (why string) {
			return r.TryAdd(driver.Lease{Request: driver.Request{Key: fmt.Sprint(i), TTL: time.Hour}})
		}
		for i := range maxPending {
			require.Empty(t, add(i))
		}
		assert.Equal(t, "too many are waiting", add(maxPending))
		assert.Equal(t, maxPending, r.Len())
		close(s.released)
		synctest.Wait()
		assert.Zero(t, r.Len())
		require.Empty(t, add(0), "there is room again")
		synctest.Wait()
		left, err := r.Close(t.Context())
		require.NoError(t, err)
		assert.Empty(t, left)
		assert.Equal(t, "the client is closed", add(0))
	})
}

func TestTheReleaserTellsThatAReleaseIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{released: make(chan struct{})}
		r := NewReleaser(s, slog.New(slog.DiscardHandler))
		r.Add(driver.Lease{Request: driver.Request{Key: "k", TTL: time.Hour}})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left, err := r.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "a release is still under way")
		require.Len(t, left, 1)
		assert.Equal(t, "k", left[0].Key)
		close(s.released)
	})
}

// A store that fails gets few releases, however many leases are left, and all of them soon after it works
// again.
func TestAStoreThatFailsGetsFewReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failing{fails: true}
		r := NewReleaser(s, slog.New(slog.DiscardHandler))
		for i := range 3000 {
			r.Add(driver.Lease{Request: driver.Request{Key: fmt.Sprint(i), TTL: time.Minute}})
		}
		synctest.Wait()
		before := s.count(true)
		time.Sleep(40 * time.Second)
		assert.LessOrEqual(t, s.count(true)-before, 40*100)
		assert.Equal(t, 3000, r.Len())
		s.count(false)
		time.Sleep(10 * time.Second)
		assert.Zero(t, r.Len())
		_, err := r.Close(t.Context())
		require.NoError(t, err)
	})
}

// failing is a store that can fail.
type failing struct {
	yes
	mu    sync.Mutex // guards all below
	fails bool
	calls int
}

func (s *failing) Release(context.Context, driver.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fails {
		return io.EOF
	}
	return nil
}

// count returns the calls so far, and sets whether later ones fail.
func (s *failing) count(fails bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
	return s.calls
}

// broken is a store that releases nothing.
type broken struct{ yes }

func (*broken) Release(context.Context, driver.Lease) error { return io.EOF }

// What Close could not release before its ctx ended is not released.
func TestAReleaseWhoseTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), firstPause/2)
		defer cancel()
		start := time.Now()
		try := &releaseTry{leases: []driver.Lease{{}}}
		try.run(ctx, &Releaser{store: &broken{}})
		require.ErrorIs(t, try.first, io.EOF)
		assert.Zero(t, try.released)
		assert.Equal(t, firstPause/2, time.Since(start))
	})
}
