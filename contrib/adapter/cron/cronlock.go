// Package cronlock lets several processes share the jobs of robfig/cron v3: one of them runs a
// job, and the others skip it or wait for it.
//
// A job changes by one line:
//
//	report := cron.FuncJob(makeReport)
//	hourly := client.With(lock.Terms{MinHold: 54 * time.Minute})
//	c.Schedule(schedule, cron.NewChain(cronlock.SkipIfTaken(ctx, hourly.Mutex("report"), logger)).Then(report))
//
// # Once per period
//
// A job that ends before the clock of the last process starts it would run a second time. MinHold
// of [lock.Terms] keeps the lock taken after the job: choose the period minus some slack, such as
// 54 minutes for an hour. The guide has more about [jobs that run once per period].
//
// Give each job a lock with a key of its own. So put the wrapper around a job, and not into the
// chain of cron.New, which is that of all jobs.
//
// # Lost locks
//
// A [cron.Job] cannot be notified that its lock is lost. A job that is a [Func] can: it gets a context
// that ends then, and the handle with the fencing token. In a chain of several wrappers this
// one must be the last, next to the job. In any case the logger gets an error when the job has
// ended.
//
// [jobs that run once per period]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#run-a-job-once-per-period
package cronlock

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/leasewheel/leasewheel/lock"
)

// Func is a job that runs under a lock. The ctx ends when the lock is lost, and when the ctx of
// the wrapper ends; see [lock.Do]. Without a wrapper of this package next to it, ctx never ends
// and held is nil, whose methods are those of a lock that is not held.
type Func func(ctx context.Context, held *lock.Held)

// Run implements [cron.Job].
func (f Func) Run() { f(context.Background(), nil) }

// RunLocked implements [Job].
func (f Func) RunLocked(ctx context.Context, held *lock.Held) { f(ctx, held) }

// Job is a [cron.Job] that receives its lock. The wrappers of this package call RunLocked
// instead of Run. Most programs use a Func.
type Job interface {
	cron.Job
	RunLocked(ctx context.Context, held *lock.Held)
}

// SkipIfTaken returns a wrapper that runs a job while it holds the lock, and skips the job if the
// lock is taken: another process runs the job, or has run it in this period; see MinHold of
// [lock.Terms]. It also skips the job if the store gives no answer, or if ctx has ended.
//
// The logger gets an Info about a job that is skipped because the lock is taken or ctx has ended,
// and an Error for any other reason, and for a lock that was lost while the job ran. A nil logger
// is [cron.DefaultLogger], which prints errors only.
//
// The lock is released when the job has returned or panicked. A panic goes on, to
// [cron.Recover] for example.
func SkipIfTaken(ctx context.Context, l lock.Locker, logger cron.Logger) cron.JobWrapper {
	return DelayIfTaken(ctx, lock.WaitAtMost(l, 0), logger)
}

// DelayIfTaken is like SkipIfTaken, but waits for the lock until ctx ends, and then runs the job: so
// each process runs it, one at a time. End ctx when the program stops; cron does not
// end a job that waits. With [lock.WaitAtMost] the wait has a limit, after which the job is skipped.
//
// Do not use it with MinHold: each process would wait until that has passed.
func DelayIfTaken(ctx context.Context, l lock.Locker, logger cron.Logger) cron.JobWrapper {
	if logger == nil {
		logger = cron.DefaultLogger
	}
	return func(j cron.Job) cron.Job {
		return cron.FuncJob(func() {
			ran := false
			err := lock.Do(ctx, l, func(ctx context.Context, held *lock.Held) error {
				ran = true
				run(ctx, j, held)
				return nil
			})
			report(logger, ran, err)
		})
	}
}

func run(ctx context.Context, j cron.Job, held *lock.Held) {
	if told, ok := j.(Job); ok {
		told.RunLocked(ctx, held)
		return
	}
	j.Run()
}

// report logs why a job was skipped, or that it was not protected to its end.
func report(logger cron.Logger, ran bool, err error) {
	switch {
	case err == nil:
	case ran:
		logger.Error(err, "cronlock: the job ran without its lock at the end")
	case errors.Is(err, lock.ErrNotAcquired):
		logger.Info("cronlock: job skipped", "reason", err)
	default:
		logger.Error(err, "cronlock: job skipped")
	}
}
