// The contexts of the calls of users, and the causes with which they end.

package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// errEnough ends the context of a user.
var errEnough = errors.New("sim: waited long enough")

// limited returns the context of a call, and the cause with which it ends after patience. In a
// schedule about causes, the cause is the error of another lock or client, as with package
// errgroup, and the context may end early.
func (u *User) limited(patience *time.Duration) (context.Context, context.CancelFunc, error) {
	ctx := by(context.Background(), u)
	if len(u.World.Plan.Causes) == 0 {
		ctx, cancel := context.WithTimeoutCause(ctx, *patience, errEnough)
		return ctx, cancel, errEnough
	}
	cause := simrand.Pick(u.Wide, u.World.Plan.Causes...)
	*patience = simrand.Pick(u.Wide, *patience, u.Wide.UpTo(u.World.Plan.Brief), u.Wide.UpTo(u.Plan.TTL))
	if u.Wide.Chance(300) {
		ctx, cancel := context.WithTimeoutCause(ctx, *patience, cause)
		return ctx, cancel, cause
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(*patience, func() { cancel(cause) })
	return ctx, func() { timer.Stop(); cancel(nil) }, cause
}

// OtherCauses returns errors that are about another lock, or another client.
func OtherCauses() []error {
	const other = "another lock"
	return []error{
		errEnough, context.Canceled, os.ErrDeadlineExceeded, errors.ErrUnsupported,
		&lock.HeldError{Key: other, ExpiresIn: time.Minute}, &lock.HeldError{Key: other},
		fmt.Errorf("lock: %q: %w", other, lock.ErrNotAcquired), fmt.Errorf("lock: %q: %w", other, lock.ErrNotHeld),
		fmt.Errorf("lock: %q: %w", other, lock.ErrWrongType), fmt.Errorf("lock: %q: %w", other, lock.ErrBadKey),
		fmt.Errorf("lock: %q: %w", other, lock.ErrBadTTL), fmt.Errorf("lock: %q: %w", other, &renewal.LostError{Reason: renewal.ReasonNotOwned}),
		lock.ErrClosed, lock.ErrTooMany, renewal.ErrClosed,
	}
}

// unlockContext returns the context of an Unlock, which may have ended.
func (u *User) unlockContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	if u.Rand.Chance(200) {
		var cause error
		if causes := u.World.Plan.Causes; len(causes) > 0 {
			cause = simrand.Pick(u.Wide, causes...)
		}
		cancel(cause)
	}
	return ctx, func() { cancel(nil) }
}

// waits records that a call of a user waits in the store, and no longer in its client.
func (w *World) waits(ctx context.Context) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if call, ok := ctx.Value(byCall{}).(*Call); ok && call.Queued.IsZero() {
		call.Queued = time.Now()
	}
}

// byCall is the key of a call for one lock in its context.
type byCall struct{}
