package lock_test

import (
	"context"
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A front end takes the lock of an order and leaves the work to another process, which
// unlocks it. Here both are clients of one process.
func ExampleHeld_Export() {
	ctx := context.Background()
	frontEnd, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer frontEnd.Close(ctx)
	worker := frontEnd.With(lock.Terms{})

	held, err := frontEnd.Mutex("order 4711").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	secret, err := held.Export()
	if err != nil {
		fmt.Println(err)
		return
	}

	// The worker gets the secret with the job.
	resumed, err := worker.Resume(ctx, secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the worker has", resumed.Key(), "with the same token:", resumed.Token() == held.Token())

	// The front end gives its handle up when the worker has accepted the job.
	fmt.Println("detached:", held.Detach(), held.Err())
	fmt.Println("still held by the worker:", resumed.Valid(), resumed.Unlock(ctx))
	// Output:
	// the worker has order 4711 with the same token: true
	// detached: <nil> lock: not held: detached
	// still held by the worker: true <nil>
}
