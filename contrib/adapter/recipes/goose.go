// Migrations with goose.

package recipes

import (
	"context"

	"github.com/pressly/goose/v3"

	"github.com/leasewheel/leasewheel/lock"
)

// Migrate applies the pending migrations of a database in one of several processes. The others
// wait, and then find nothing to do.
func Migrate(ctx context.Context, l lock.Locker, migrations *goose.Provider) error {
	return lock.Do(ctx, l, func(ctx context.Context, _ *lock.Held) error {
		_, err := migrations.Up(ctx) // if the lock is lost, ctx ends and goose rolls back what it is at
		return err
	})
}
