package cronlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	cronlock "github.com/leasewheel/leasewheel/contrib/adapter/cron"
	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// records is a logger that keeps the errors that it gets.
type records struct {
	mu    sync.Mutex // guards the fields below
	infos []error
	errs  []error
	texts []string // of errs
}

func (r *records) Info(_ string, keysAndValues ...any) {
	if len(keysAndValues) == 2 && keysAndValues[0] == "reason" { // other records are of cron itself
		r.mu.Lock()
		defer r.mu.Unlock()
		r.infos = append(r.infos, keysAndValues[1].(error))
	}
}

func (r *records) Error(err error, text string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
	r.errs = append(r.errs, err)
}

// read returns the reasons of skips and the errors so far.
func (r *records) read() (infos, errs []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.infos, r.errs
}

// skewed is a schedule by a clock that is ahead.
type skewed struct {
	cron.Schedule
	ahead time.Duration
}

func (s skewed) Next(t time.Time) time.Time {
	return s.Schedule.Next(t.Add(s.ahead)).Add(-s.ahead)
}

// start runs a job on its schedule until the end of the test or bubble.
func start(t *testing.T, s cron.Schedule, j cron.Job) {
	c := cron.New(cron.WithLocation(time.UTC))
	c.Schedule(s, j)
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
}

// each returns how often a job of each minute runs within ten minutes on three processes,
// whose clocks are seconds apart. The job is over before the next process starts it.
func each(t *testing.T, wrap func(*lock.Client) cron.JobWrapper, terms lock.Terms) int64 {
	var runs atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * time.Second) // half of a minute, so that the clocks agree on the minute
		store := memstore.New()
		minutely, err := cron.ParseStandard("* * * * *")
		require.NoError(t, err)
		for _, ahead := range []time.Duration{0, 1500 * time.Millisecond, 2 * time.Second} {
			start(t, skewed{minutely, ahead}, wrap(adaptertest.NewClient(t, adaptertest.Process{Store: store}, terms))(cron.FuncJob(func() {
				runs.Add(1)
				time.Sleep(100 * time.Millisecond)
			})))
		}
		time.Sleep(10 * time.Minute)
	})
	return runs.Load()
}

func TestProcessesWhoseClocksDiffer(t *testing.T) {
	skip := func(client *lock.Client) cron.JobWrapper {
		return cronlock.SkipIfTaken(context.Background(), client.Mutex("report"), cron.DiscardLogger)
	}
	delay := func(client *lock.Client) cron.JobWrapper {
		return cronlock.DelayIfTaken(context.Background(), client.Mutex("report"), cron.DiscardLogger)
	}
	assert.Equal(t, int64(10), each(t, skip, lock.Terms{MinHold: 30 * time.Second}), "once per period")
	assert.Equal(t, int64(30), each(t, skip, lock.Terms{}), "each process in turn")
	assert.Equal(t, int64(30), each(t, delay, lock.Terms{}), "each process in turn")
}

func TestSkipAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		held, err := adaptertest.NewClient(t, adaptertest.Process{Store: store}).Mutex("report").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		mutex := adaptertest.NewClient(t, adaptertest.Process{Store: store}).Mutex("report")
		var log records
		ran := 0
		job := cron.FuncJob(func() { ran++ })

		cron.NewChain(cronlock.SkipIfTaken(ctx, mutex, &log)).Then(job).Run()
		assert.Zero(t, ran)
		cron.NewChain(cronlock.DelayIfTaken(ctx, lock.WaitAtMost(mutex, time.Minute), &log)).Then(job).Run()
		assert.Zero(t, ran)
		time.AfterFunc(time.Hour, func() { assert.NoError(t, held.Unlock(t.Context())) })
		delayed := cron.NewChain(cronlock.DelayIfTaken(ctx, mutex, &log)).Then(job)
		delayed.Run()
		assert.Equal(t, 1, ran)
		cancel()
		delayed.Run()
		assert.Equal(t, 1, ran)

		infos, errs := log.read()
		assert.Empty(t, errs)
		require.Len(t, infos, 3)
		for _, err := range infos {
			assert.ErrorIs(t, err, lock.ErrNotAcquired)
		}
		assert.ErrorIs(t, infos[2], context.Canceled)
		assert.Zero(t, store.Len())
	})
}

func TestAJobIsToldThatItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		mutex := adaptertest.NewClient(t, store).Mutex("report")
		var log records
		var cause error
		wrap := cronlock.SkipIfTaken(t.Context(), mutex, &log)
		wrap(cronlock.Func(func(ctx context.Context, held *lock.Held) {
			assert.True(t, held.Valid())
			assert.Positive(t, held.Token())
			store.Delete("report")
			<-ctx.Done()
			cause = context.Cause(ctx)
		})).Run()
		assert.ErrorIs(t, cause, lock.ErrLost)

		wrap(cron.FuncJob(func() {
			store.Delete("report")
			time.Sleep(time.Minute) // it cannot be told
		})).Run()
		infos, errs := log.read()
		assert.Empty(t, infos)
		require.Len(t, errs, 2)
		assert.ErrorIs(t, errs[0], lock.ErrLost)
		assert.ErrorIs(t, errs[1], lock.ErrLost)
		assert.Equal(t, "cronlock: the job ran without its lock at the end", log.texts[1])
	})
}

func TestAFuncWithoutALock(t *testing.T) {
	ran := false
	cron.NewChain().Then(cronlock.Func(func(ctx context.Context, held *lock.Held) {
		ran = true
		assert.NoError(t, ctx.Err())
		assert.False(t, held.Valid())
	})).Run()
	assert.True(t, ran)
}

func TestAPanicReleasesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		mutex := adaptertest.NewClient(t, store).Mutex("report")
		var log records
		chain := cron.NewChain(cron.Recover(&log), cronlock.SkipIfTaken(t.Context(), mutex, &log))
		oops := errors.New("oops")
		chain.Then(cron.FuncJob(func() { panic(oops) })).Run()
		_, errs := log.read()
		assert.Equal(t, []error{oops}, errs)
		assert.Zero(t, store.Len())
	})
}

func TestAnOutageIsAnError(t *testing.T) {
	store := (&locktest.Faulty{Before: func(context.Context, locktest.Op) error { return errors.New("down") }}).Over(memstore.New())
	mutex := adaptertest.NewClient(t, store).Mutex("report")
	var log records
	for _, wrap := range []cron.JobWrapper{
		cronlock.SkipIfTaken(t.Context(), mutex, &log),
		cronlock.DelayIfTaken(t.Context(), mutex, &log),
		cronlock.SkipIfTaken(t.Context(), nil, &log), // also an error
	} {
		wrap(cron.FuncJob(func() { t.Error("the job runs without its lock") })).Run()
	}
	infos, errs := log.read()
	assert.Empty(t, infos)
	require.Len(t, errs, 3)
	assert.ErrorIs(t, errs[0], lock.ErrUnavailable)
	assert.ErrorIs(t, errs[1], lock.ErrUnavailable)
	assert.ErrorContains(t, errs[2], "the lock is nil")
}

func TestNoLogger(t *testing.T) {
	client := adaptertest.NewClient(t, memstore.New())
	held, err := client.Mutex("report").Lock(t.Context())
	require.NoError(t, err)
	cronlock.SkipIfTaken(t.Context(), client.Mutex("report"), nil)(cron.FuncJob(func() { t.Error("it runs") })).Run()
	assert.NoError(t, held.Unlock(t.Context()))
}
