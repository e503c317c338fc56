// WaitAtMost, a limit for the wait alone.

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// WaitAtMost returns a lock like l whose Lock waits for at most d; if d is 0, Lock is TryLock. The
// time bounds neither TryLock nor what is done with the lock.
//
// A Lock that has waited for d returns ErrNotAcquired if the lock is taken, and ErrUnavailable if
// the store did not answer; it matches no error of package context. As a lock of a Multi, l is
// waited for at most d at a time, perhaps several times.
func WaitAtMost(l Locker, d time.Duration) Locker { return limitedWait{l, d} }

// limitedWait is what WaitAtMost returns.
type limitedWait struct {
	locker Locker
	atMost time.Duration
}

// Lock implements Locker.
func (w limitedWait) Lock(ctx context.Context) (*Held, error) { return w.acquire(ctx, true, nil) }

// TryLock implements Locker.
func (w limitedWait) TryLock(ctx context.Context) (*Held, error) { return w.acquire(ctx, false, nil) }

func (w limitedWait) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	if err := w.check(ctx); err != nil {
		return nil, err
	}
	if !wait || w.atMost == 0 {
		return lockMember(ctx, w.locker, false, o)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.atMost, waitedError(w.atMost))
	defer cancel()
	return lockMember(ctx, w.locker, true, o)
}

func (w limitedWait) check(ctx context.Context) error {
	switch {
	case w.locker == nil:
		return errors.New("lock: WaitAtMost: the lock is nil")
	case w.atMost < 0:
		return fmt.Errorf("lock: WaitAtMost: the time %v is negative", w.atMost)
	case ctx == nil:
		return basic.ErrNilContext
	}
	return nil
}

// waitedError is the cause of the context of a limitedWait that has waited long enough.
type waitedError time.Duration

func (e waitedError) Error() string { return fmt.Sprintf("waited for %v", time.Duration(e)) }
