// Package gocronlock lets several replicas share the jobs of gocron v2. A [Locker] makes one of
// them run a job, once per period. An [Elector] makes one of them run all jobs.
//
// A scheduler changes by one line:
//
//	scheduler, err := gocron.NewScheduler(
//		gocron.WithDistributedLocker(gocronlock.New(client.With(lock.Terms{MinHold: 54 * time.Minute}), nil)),
//	)
//
// # Once per period
//
// gocron unlocks a job when it has ended. If it ends before the clock of the last replica starts
// it, that replica finds the lock free and runs the job again. MinHold of [lock.Terms] keeps the
// lock taken after that: choose the period minus some slack, such as 54 minutes for an hour. It
// must be longer than the largest difference between the clocks of the replicas, and shorter than
// the period minus that difference. Jobs of different periods need lockers of different Terms:
//
//	scheduler.NewJob(everyMinute, task, gocron.WithDistributedJobLocker(
//		gocronlock.New(client.With(lock.Terms{MinHold: 30 * time.Second}), nil)))
//
// A duration job counts from the start of its scheduler, so the replicas start it at any time
// of the period. Use a cron job, or gocron.WithStartAt with a rounded time.
//
// An Elector needs no MinHold. But it does not know periods: if the leader changes at the moment
// of a job, both replicas may run it, or the new one only the next time.
//
// # Skipped jobs
//
// gocron skips a job whose lock it does not get. Both cases are the error of
// gocron.AfterLockError: one that matches [lock.ErrNotAcquired] is regular, because another
// replica runs the job; one that matches [lock.ErrUnavailable] means that the store does not
// answer, so that perhaps no replica runs it.
//
// # Lost locks
//
// gocron does not notify a job that its lock is lost. A job that must know asks for the handle:
//
//	locked, cancel := locker.Held("report").Context(ctx)
//	defer cancel()
//
// The client also logs each loss, and calls its lock.Hooks. The guide has more about [jobs that
// run once per period] and about [lost locks].
//
// [jobs that run once per period]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#run-a-job-once-per-period
// [lost locks]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#when-a-lock-is-lost
package gocronlock
