package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// A service sets the TTL, says who it is, logs, and counts losses.
func ExampleOptions() {
	losses := make(chan string, 1)
	store := memstore.New()
	client, err := lock.New(store, &lock.Options{
		Terms:      lock.Terms{TTL: 3 * time.Second, Metadata: "host-1"},
		MaxWaiters: 1000, // further calls of Lock return ErrTooMany
		Logger:     slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		Hooks: &lock.Hooks{Lost: func(_ context.Context, i lock.HookInfo) {
			if lost, ok := errors.AsType[*renewal.LostError](i.Err); ok {
				losses <- fmt.Sprint(i.Key, ": ", lost.Reason)
			}
		}},
	})
	if err != nil {
		fmt.Println(err) // names the field that is wrong
		return
	}
	defer client.Close(context.Background())

	held, err := client.Mutex("orders").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(context.Background())
	store.Delete("orders")
	fmt.Println(<-losses)
	// Output: orders: no longer owned
}

// Metadata tell others who holds the lock, and MaxHold ends work that hangs.
func ExampleTerms() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	nightly := client.With(lock.Terms{
		TTL:      time.Minute, // others wait that long after a crash
		MaxHold:  time.Hour,   // after that the lock is lost
		Metadata: "nightly report of host-1",
	})
	held, err := nightly.Mutex("report").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(context.Background())
	info, err := client.Inspect(context.Background(), "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held by:", info.Holders[0].Metadata)
	// Output: held by: nightly report of host-1
}

// The ctx of Do bounds the wait and the work together. WaitAtMost bounds the wait alone.
func ExampleWaitAtMost() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	orders := lock.WaitAtMost(client.Mutex("orders"), 20*time.Millisecond)
	err = lock.Do(context.Background(), orders, func(context.Context, *lock.Held) error {
		err := lock.Do(context.Background(), orders, func(context.Context, *lock.Held) error { return nil })
		fmt.Println(err, errors.Is(err, lock.ErrNotAcquired))
		return nil
	})
	fmt.Println(err)
	// Output:
	// lock: "orders": not acquired: waited for 20ms true
	// <nil>
}

// TryLock tells how long the lease in the way lasts, if it is not renewed.
func ExampleHeldError() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	held, err := client.Mutex("orders").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(context.Background())

	_, err = client.Mutex("orders").TryLock(context.Background())
	if taken, ok := errors.AsType[*lock.HeldError](err); ok {
		fmt.Printf("%q is taken for at most %v\n", taken.Key, taken.ExpiresIn.Round(time.Second))
	}
	// Output: "orders" is taken for at most 30s
}
