package storekit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
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
		require.NoError(t, r.Close(t.Context(), t.Context(), nil))
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
		err := r.Close(ctx, ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 of 1 locks not released")
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
		require.NoError(t, r.Close(t.Context(), t.Context(), nil))
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
		err := NewReleaser(&broken{}, slog.New(slog.DiscardHandler)).Close(ctx, ctx, make([]driver.Lease, 2))
		require.ErrorIs(t, err, io.EOF)
		require.ErrorContains(t, err, "2 of 2 locks not released")
		assert.Equal(t, firstPause/2, time.Since(start))
	})
}

// lanes is a store whose leases have their TTL as their lane.
type lanes struct{ yes }

func (*lanes) Lane(l driver.Lease) int { return int(l.TTL) }

// gathering is a store that records its calls and blocks them until the test allows them.
type gathering struct {
	lanes
	open chan struct{}

	mu    sync.Mutex // guards bulks
	bulks [][]string
}

func (*gathering) Describe() driver.Description { return driver.Description{ReleasesAll: true} }

func (s *gathering) ReleaseAll(_ context.Context, batch []driver.Lease, out []error) error {
	keys := make([]string, len(batch))
	for i := range batch {
		keys[i], out[i] = batch[i].Key, nil
	}
	s.mu.Lock()
	s.bulks = append(s.bulks, keys)
	s.mu.Unlock()
	<-s.open
	return nil
}

func TestTheReleaserReleasesInBulkWhileItIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gathering{open: make(chan struct{})}
		r := NewReleaser(s, slog.New(slog.DiscardHandler))
		for i := range maxWorkers + 2*maxBatch + 30 {
			synctest.Wait() // or one goroutine would take what others are there for
			lane := time.Hour
			if i >= maxWorkers+2*maxBatch+10 {
				lane = time.Minute
			}
			r.Add(driver.Lease{Request: driver.Request{Key: fmt.Sprint(i), TTL: lane}})
		}
		synctest.Wait()
		close(s.open)
		synctest.Wait()
		var sizes []int
		for _, keys := range s.bulks {
			sizes = append(sizes, len(keys))
		}
		want := append(slices.Repeat([]int{1}, 2*maxPerLane), 100, 100, 16+10-maxPerLane, 20-maxPerLane)
		assert.ElementsMatch(t, want, sizes)
		assert.Zero(t, r.Len())
		require.NoError(t, r.Close(t.Context(), t.Context(), nil))
	})
}
