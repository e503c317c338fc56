// SetMetadata.

package quorumstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// SetMetadata implements [driver.Store] if all members do. It changes the metadata
// of all copies of the lease, and returns nil once a majority has confirmed that.
func (q *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if !q.Describe().SetsMetadata {
		return q.Base.SetMetadata(ctx, l, metadata)
	}
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	g := q.find(&l)
	if g == nil {
		return driver.ErrNotHeld
	}
	leases, at := g.present(&l)
	answers, err := callAll(ctx, q, inspectTimeout, at, func(ctx context.Context, i int) (struct{}, error) {
		return struct{}{}, q.members[i].store.SetMetadata(ctx, leases[i], metadata)
	})
	if err != nil {
		return err
	}
	need, confirmed, absent := q.need(&l.Request), 0, len(q.members)-len(at)
	var errs memberErrors
	for range at {
		a, err := next(ctx, answers)
		switch {
		case err != nil:
			return err
		case a.err == nil:
			confirmed++
		case errors.Is(a.err, driver.ErrNotHeld):
			absent++
		default:
			errs.add(a.at, a.err)
		}
		if confirmed >= need {
			return nil
		}
	}
	if len(errs) == 0 || absent > len(q.members)-need {
		return driver.ErrNotHeld
	}
	return fmt.Errorf("quorumstore: no majority confirmed the metadata: %w", errs)
}
