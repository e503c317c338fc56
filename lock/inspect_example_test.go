package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
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
