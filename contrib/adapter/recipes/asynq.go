// The scheduler of asynq.

package recipes

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/leasewheel/leasewheel/lock"
)

// Schedule runs the scheduler of asynq in one of several processes at a time. It returns when ctx
// ends.
func Schedule(ctx context.Context, election *lock.Election, rdb asynq.RedisConnOpt, register func(*asynq.Scheduler) error) error {
	return election.Run(ctx, func(ctx context.Context, _ *lock.Held) error {
		scheduler := asynq.NewScheduler(rdb, nil) // one for each term: it cannot start twice
		if err := register(scheduler); err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		<-ctx.Done() // the leadership is lost, or the program stops
		scheduler.Shutdown()
		return context.Cause(ctx)
	})
}
