package faulttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/memstore"
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

// A test of what a program does while the server hangs, in virtual time.
func ExampleServer() {
	TestShipWaits := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := faulttest.NewServer(memstore.New())
			client, err := lock.New(server, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close(context.Background())

			server.Hang()
			update := func(context.Context) error { return nil }
			if err := ship(t.Context(), client, update); !errors.Is(err, lock.ErrUnavailable) {
				t.Error("while the server hangs:", err)
			}
			server.Resume()
			if err := ship(t.Context(), client, update); err != nil {
				t.Error("when it works again:", err)
			}
		})
	}
	_ = TestShipWaits
}
