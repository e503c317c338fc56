package gocronlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	gocronlock "github.com/leasewheel/leasewheel/contrib/adapter/gocron"
	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

var _ gocron.Elector = (*gocronlock.Elector)(nil)

func TestTheLeaderRunsAllJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * time.Second)
		store := memstore.New()
		var electors [3]*gocronlock.Elector
		var runs [3]atomic.Int64
		for i, name := range []string{"a", "b", "c"} {
			electors[i] = gocronlock.NewElector(adaptertest.NewClient(t, adaptertest.Process{Store: store}).Election("jobs", name))
			s := newScheduler(t, gocron.WithDistributedElector(electors[i]))
			for range 2 { // two jobs that are due at the same time
				add(t, s, gocron.CronJob("* * * * *", false), func() { runs[i].Add(1) })
			}
		}
		leader := func() int {
			for i := range runs {
				if runs[i].Load() > 0 {
					return i
				}
			}
			return -1
		}

		time.Sleep(10 * time.Minute)
		first := leader()
		require.NotEqual(t, -1, first)
		assert.Equal(t, int64(20), runs[first].Swap(0))
		assert.Equal(t, -1, leader(), "no other replica runs a job")

		require.NoError(t, electors[first].Close(t.Context()))
		time.Sleep(10 * time.Minute)
		second := leader()
		require.NotEqual(t, -1, second)
		assert.NotEqual(t, first, second)
		assert.Equal(t, int64(20), runs[second].Swap(0))
		assert.Equal(t, -1, leader(), "no other replica runs a job")
	})
}

func TestALostLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := gocronlock.NewElector(adaptertest.NewClient(t, adaptertest.Process{Store: store}).Election("jobs", "a"))
		b := gocronlock.NewElector(adaptertest.NewClient(t, adaptertest.Process{Store: store}).Election("jobs", "b"))
		assert.Nil(t, a.Held())
		require.NoError(t, a.IsLeader(t.Context()))
		assert.ErrorIs(t, b.IsLeader(t.Context()), lock.ErrNotAcquired)
		assert.True(t, a.Held().Valid())
		assert.Positive(t, a.Held().Token())

		store.Delete("jobs")
		<-a.Held().Done()
		assert.ErrorIs(t, a.Held().Err(), lock.ErrLost)
		require.NoError(t, b.IsLeader(t.Context()))
		assert.ErrorIs(t, a.IsLeader(t.Context()), lock.ErrNotAcquired)
		assert.Greater(t, b.Held().Token(), a.Held().Token())

		assert.NoError(t, a.Close(t.Context()), "there is nothing to resign from")
		assert.NoError(t, b.Close(t.Context()))
		assert.NoError(t, b.Close(t.Context()))
		assert.Zero(t, store.Len())
	})
}

// slow is a store whose acquires wait until open is closed.
func slow(mem *memstore.Store, open <-chan struct{}, asked *atomic.Int64) *locktest.Faulty {
	return (&locktest.Faulty{Before: func(ctx context.Context, op locktest.Op) error {
		if op != locktest.Acquire {
			return nil
		}
		asked.Add(1)
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}).Over(mem)
}

func TestConcurrentJobsShareACampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var asked atomic.Int64
		elector := gocronlock.NewElector(adaptertest.NewClient(t, slow(memstore.New(), open, &asked)).Election("jobs", "a"))
		var jobs sync.WaitGroup
		for range 10 {
			jobs.Go(func() { assert.NoError(t, elector.IsLeader(t.Context())) })
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		synctest.Wait()
		assert.ErrorIs(t, elector.IsLeader(impatient), context.DeadlineExceeded)
		close(open)
		jobs.Wait()
		assert.Equal(t, int64(1), asked.Load())
	})
}

func TestACampaignThatIsAbandonedFailsNoOtherJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var asked atomic.Int64
		elector := gocronlock.NewElector(adaptertest.NewClient(t, slow(memstore.New(), open, &asked)).Election("jobs", "a"))
		removed, remove := context.WithCancel(t.Context())
		var jobs sync.WaitGroup
		jobs.Go(func() { assert.ErrorIs(t, elector.IsLeader(removed), context.Canceled) })
		synctest.Wait()
		jobs.Go(func() { assert.NoError(t, elector.IsLeader(t.Context())) })
		synctest.Wait()
		remove()
		synctest.Wait()
		close(open)
		jobs.Wait()
	})
}

func TestAFailedCampaignIsTheErrorOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var asked atomic.Int64
		var down atomic.Bool
		down.Store(true)
		store := slow(memstore.New(), open, &asked)
		store.After = func(context.Context, locktest.Op) error {
			if down.Load() {
				return errDown
			}
			return nil
		}
		elector := gocronlock.NewElector(adaptertest.NewClient(t, store).Election("jobs", "a"))
		var jobs sync.WaitGroup
		for range 10 {
			jobs.Go(func() {
				err := elector.IsLeader(t.Context())
				assert.ErrorIs(t, err, lock.ErrUnavailable)
				assert.NotErrorIs(t, err, lock.ErrNotAcquired)
			})
		}
		synctest.Wait()
		close(open)
		jobs.Wait()
		assert.LessOrEqual(t, asked.Load(), int64(2), "one campaign, with one retry")
		down.Store(false)
		time.Sleep(time.Minute) // the store has executed the try; that is undone in the background
		assert.NoError(t, elector.IsLeader(t.Context()))
	})
}

func TestCloseDuringACampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var asked atomic.Int64
		mem := memstore.New()
		store := slow(mem, open, &asked)
		elector := gocronlock.NewElector(adaptertest.NewClient(t, store).Election("jobs", "a"))
		var calls sync.WaitGroup
		calls.Go(func() { assert.ErrorIs(t, elector.IsLeader(t.Context()), gocronlock.ErrClosed) })
		synctest.Wait()
		calls.Go(func() { assert.NoError(t, elector.Close(t.Context())) })
		synctest.Wait()
		ended, end := context.WithCancel(t.Context())
		end()
		assert.ErrorIs(t, elector.Close(ended), context.Canceled)
		assert.ErrorIs(t, elector.IsLeader(t.Context()), gocronlock.ErrClosed)
		close(open)
		calls.Wait()
		assert.Zero(t, mem.Len(), "the leadership that was won meanwhile is given up")
		assert.NoError(t, elector.Close(t.Context()))
		assert.Nil(t, elector.Held())
	})
}

func TestEveryCloseHasTheSameResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := (&locktest.Faulty{Before: func(_ context.Context, op locktest.Op) error {
			if op == locktest.Release {
				return errDown
			}
			return nil
		}}).Over(memstore.New())
		elector := gocronlock.NewElector(adaptertest.NewClient(t, store).Election("jobs", "a"))
		require.NoError(t, elector.IsLeader(t.Context()))
		first := elector.Close(t.Context())
		assert.ErrorIs(t, first, lock.ErrUnavailable)
		assert.Equal(t, first, elector.Close(t.Context()))
	})
}

func TestNoElection(t *testing.T) {
	elector := gocronlock.NewElector(nil)
	assert.Error(t, elector.IsLeader(t.Context()))
	assert.NoError(t, elector.Close(t.Context()))
}
