package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Metadata tell an operator whose lock it is.
func ExampleClient_Inspect() {
	client, err := lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{Metadata: "host-1, nightly report"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()

	held, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := client.Inspect(ctx, "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range info.Holders {
		fmt.Printf("%v lock of %q, the same token: %v\n", h.Mode, h.Metadata, h.Token == held.Token())
	}
	fmt.Println("waiting:", info.Waiting)
	// Output:
	// exclusive lock of "host-1, nightly report", the same token: true
	// waiting: 0
}

// The holder is told by its next renewal; until then only its token, which is lower,
// keeps it from the resource.
func ExampleClient_ForceRelease() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()

	stuck, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("forced:", client.ForceRelease(ctx, "report"))
	next, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a higher token:", next.Token() > stuck.Token())
	fmt.Println("told of the loss:", errors.Is(stuck.Unlock(ctx), lock.ErrLost))
	// Output:
	// forced: <nil>
	// a higher token: true
	// told of the loss: true
}

// An operator looks at the holders of all locks of a kind of job.
func ExampleClient_List() {
	client, err := lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{Metadata: "host-1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()
	for _, key := range []string{"report:daily", "mail:4711"} {
		if _, err := client.Mutex(key).Lock(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}

	for key, err := range client.List(ctx, "report:") {
		if err != nil {
			fmt.Println(err)
			return
		}
		info, err := client.Inspect(ctx, key)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, h := range info.Holders {
			fmt.Printf("%q is held by %q\n", key, h.Metadata)
		}
	}
	// Output: "report:daily" is held by "host-1"
}

// What a program exports as metrics: figures of Stats when it is asked for them, and
// losses when they happen.
func ExampleClient_Stats() {
	lost := make(chan string, 1)
	store := memstore.New()
	client, err := lock.New(store, &lock.Options{
		Terms: lock.Terms{TTL: time.Second},
		Hooks: &lock.Hooks{Lost: func(_ context.Context, i lock.HookInfo) { lost <- i.Key }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	if _, err := client.Mutex("orders").Lock(context.Background()); err != nil {
		fmt.Println(err)
		return
	}

	store.Delete("orders") // as an operator might
	fmt.Println("lost:", <-lost)
	stats := client.Stats().Renewal
	fmt.Println("held:", stats.Held, "losses:", stats.Lost())
	// Output:
	// lost: orders
	// held: 0 losses: 1
}

// An HTTP service answers 409 while somebody else has the lock, and 503 while the store gives
// no answer.
func ExampleErrUnavailable() {
	server := faulttest.NewServer(memstore.New()) // in place of the store of the program
	client, err := lock.New(server, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	status := func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		held, err := client.Mutex("report").Lock(ctx)
		switch {
		case errors.Is(err, lock.ErrNotAcquired):
			return http.StatusConflict
		case errors.Is(err, lock.ErrUnavailable):
			return http.StatusServiceUnavailable
		case err != nil:
			return http.StatusInternalServerError
		}
		defer held.Unlock(context.Background())
		return http.StatusOK
	}

	fmt.Println("free:", status())
	held, err := client.Mutex("report").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("taken:", status())
	if err := held.Unlock(context.Background()); err != nil {
		fmt.Println(err)
	}
	server.Hang()
	fmt.Println("the store hangs:", status())
	server.Resume()
	// Output:
	// free: 200
	// taken: 409
	// the store hangs: 503
}

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
