// Jobs of River.

package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"

	"github.com/leasewheel/leasewheel/lock"
)

// WorkAlone runs a job of River under a lock. If the lock is taken, the job comes back after ten
// seconds, and no attempt is counted.
func WorkAlone(ctx context.Context, l lock.Locker, work func(context.Context, *lock.Held) error) error {
	err := lock.Do(ctx, lock.WaitAtMost(l, 0), work)
	if errors.Is(err, lock.ErrNotAcquired) {
		return river.JobSnooze(10 * time.Second)
	}
	return err // ErrUnavailable and ErrLost: River retries the job
}
