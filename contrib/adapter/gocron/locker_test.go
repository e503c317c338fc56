package gocronlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	gocronlock "github.com/leasewheel/leasewheel/contrib/adapter/gocron"
	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

var _ gocron.Locker = (*gocronlock.Locker)(nil)

// TestReplicasWhoseClocksDiffer runs a job of each minute on three replicas, whose clocks are
// seconds apart. The job is over before the next replica starts it.
func TestReplicasWhoseClocksDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		terms lock.Terms
		runs  int64
	}{
		"with MinHold the job runs once per period":       {lock.Terms{MinHold: 30 * time.Second}, 10},
		"without MinHold each replica runs it in turn":    {lock.Terms{}, 30},
		"a MinHold below the difference is not enough":    {lock.Terms{MinHold: time.Second}, 20},
		"a MinHold of the TTL or more outlives the TTL":   {lock.Terms{TTL: 5 * time.Second, MinHold: 50 * time.Second}, 10},
		"a MinHold over the whole period leaves some out": {lock.Terms{MinHold: 70 * time.Second}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(30 * time.Second) // half of a minute, so that the clocks agree on the minute
				store := memstore.New()
				var runs atomic.Int64
				for _, ahead := range []time.Duration{0, 1500 * time.Millisecond, 2 * time.Second} {
					client := adaptertest.NewClient(t, adaptertest.Process{Store: store}, test.terms)
					s := newScheduler(t, gocron.WithClock(skewed{clockwork.NewRealClock(), ahead}),
						gocron.WithDistributedLocker(gocronlock.New(client, nil)))
					add(t, s, gocron.CronJob("* * * * *", false), func() {
						runs.Add(1)
						time.Sleep(100 * time.Millisecond)
					})
				}
				time.Sleep(10 * time.Minute)
				assert.Equal(t, test.runs, runs.Load())
			})
		})
	}
}

// refusal runs a job at once, with replicas on these stores, and returns the error of one that is refused.
func refusal(t *testing.T, job func(), stores ...driver.Store) (err error) {
	refused := make(chan error, len(stores))
	for _, store := range stores {
		locker := gocronlock.New(adaptertest.NewClient(t, store, lock.Terms{MinHold: time.Hour}), nil)
		add(t, newScheduler(t, gocron.WithDistributedLocker(locker)), gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), job,
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { refused <- err })))
	}
	return <-refused
}

func TestOneOfTwoReplicasRunsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var runs atomic.Int64
		err := refusal(t, func() { runs.Add(1) }, adaptertest.Process{Store: store}, adaptertest.Process{Store: store})
		assert.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.NotErrorIs(t, err, lock.ErrUnavailable)
		assert.ErrorContains(t, err, `gocronlock: job "report" runs elsewhere, or has run in this period: lock: "gocron/report" is taken`)
		synctest.Wait()
		assert.EqualValues(t, 1, runs.Load())
	})
}

func TestAnOutageIsNoContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := (&locktest.Faulty{Before: func(context.Context, locktest.Op) error { return errDown }}).Over(memstore.New())
		err := refusal(t, func() { t.Error("the job runs without its lock") }, store)
		assert.ErrorIs(t, err, lock.ErrUnavailable)
		assert.NotErrorIs(t, err, lock.ErrNotAcquired)
		assert.ErrorContains(t, err, `gocronlock: job "report" is skipped because the store does not answer: `)
	})
}

func TestAJobSeesThatItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locker := gocronlock.New(adaptertest.NewClient(t, store), nil)
		assert.Nil(t, locker.Held("report"))
		ended := make(chan error, 1)
		add(t, newScheduler(t, gocron.WithDistributedLocker(locker)), gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			func(ctx context.Context) {
				held := locker.Held("report")
				assert.Equal(t, "gocron/report", held.Key())
				assert.Positive(t, held.Token())
				ctx, cancel := held.Context(ctx)
				defer cancel()
				store.Delete("gocron/report")
				<-ctx.Done()
				ended <- context.Cause(ctx)
			})
		assert.ErrorIs(t, <-ended, lock.ErrLost)
		synctest.Wait()
		assert.Nil(t, locker.Held("report"))
	})
}

func TestUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locker := gocronlock.New(adaptertest.NewClient(t, store), &gocronlock.Options{Prefix: "billing/"})
		first, err := locker.Lock(t.Context(), "report")
		require.NoError(t, err)
		assert.True(t, store.Delete("billing/report"))
		second, err := locker.Lock(t.Context(), "report") // by another job of the same name
		require.NoError(t, err)
		held := locker.Held("report")

		ended, end := context.WithCancel(t.Context())
		end() // as gocron does before it unlocks the jobs of a scheduler that was shut down
		err = first.Unlock(ended)
		assert.ErrorIs(t, err, lock.ErrLost)
		assert.ErrorContains(t, err, `gocronlock: job "report": `)
		assert.Same(t, held, locker.Held("report"))
		assert.True(t, held.Valid())

		assert.NoError(t, second.Unlock(ended))
		assert.Nil(t, locker.Held("report"))
		assert.Zero(t, store.Len())
	})
}

func TestOtherErrorsOfLock(t *testing.T) {
	store := new(locktest.Faulty).Over(memstore.New())
	client := adaptertest.NewClient(t, store)
	_, err := gocronlock.New(client, nil).Lock(t.Context(), string(make([]byte, lock.MaxKeyLen)))
	assert.ErrorIs(t, err, lock.ErrBadKey)
	require.NoError(t, client.Close(t.Context()))
	_, err = gocronlock.New(client, nil).Lock(t.Context(), "report")
	assert.ErrorIs(t, err, lock.ErrClosed)
	assert.ErrorContains(t, err, `gocronlock: job "report" is skipped: `)
	_, err = gocronlock.New(nil, nil).Lock(t.Context(), "report")
	assert.Error(t, err)
}

// errDown is the error of a store that fails.
var errDown = errors.New("down")
