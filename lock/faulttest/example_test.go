package faulttest_test

import (
	"context"
	"testing"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
)

// ship is the code under test. update is its statement of the database.
func ship(ctx context.Context, client *lock.Client, update func(ctx context.Context) error) error {
	return lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, _ *lock.Held) error {
		return update(ctx) // ctx ends if the lock is lost
	})
}

// Call Run in a test of your code, and write to the Resource in place of the database. Under names the
// lock that protects it.
func ExampleRun() {
	TestShip := func(t *testing.T) {
		faulttest.Run(t, 1000, func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
			return ship(ctx, client, r.Under("orders").Write)
		})
	}
	_ = TestShip
}
