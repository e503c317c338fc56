// The renewer of a client: its store as the watchdog sees it.

package lock

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// renewer is the store as the watchdog sees it. It records the outcomes of renewals.
type renewer struct {
	store  driver.Store
	health *storeHealth
}

// Renew implements renewal.Renewer.
func (r renewer) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	began := time.Now()
	err := r.store.Renew(ctx, batch, out)
	verdict := driver.VerdictOf(err)
	r.health.record(err, verdict, began, false)
	if verdict == driver.NotSent {
		err = unsentError{err}
	}
	return err
}

// unsentError is an error that also matches renewal.ErrNotSent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

func (unsentError) Is(target error) bool { return target == renewal.ErrNotSent }

// Lane implements renewal.Laner.
func (r renewer) Lane(l driver.Lease) int { return r.store.Lane(l) }
