package waitgraph_test

import (
	"context"
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/waitgraph"
)

// A function that holds a lock calls another one that locks it again. Each call uses its own
// context, so the client does not notice. A tool does.
func ExampleCycles() {
	waits := make(chan struct{}, 1)
	client, err := lock.New(memstore.New(), &lock.Options{
		Terms: lock.Terms{Metadata: "host-1"},
		Hooks: &lock.Hooks{Waiting: func(context.Context, lock.HookInfo) { waits <- struct{}{} }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	outer, err := client.Mutex("report").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer outer.Unlock(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := client.Mutex("report").Lock(ctx)
		done <- err
	}()
	<-waits

	cycles, err := waitgraph.Cycles(context.Background(), client, "")
	if err != nil {
		fmt.Println(err)
	}
	for _, cycle := range cycles {
		for _, w := range cycle {
			fmt.Printf("%q waits for %q, which %q holds\n", w.Waiter.Metadata, w.Key, w.Holder.Metadata)
		}
	}
	cancel() // the inner call gives up
	fmt.Println("inner:", <-done)
	// Output:
	// "host-1" waits for "report", which "host-1" holds
	// inner: lock: "report": not acquired: context canceled
}
