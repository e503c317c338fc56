package lock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Hooks feed metrics: how long calls wait and locks are held, and how they end. The key of a
// lock is no label of a metric, because there may be many keys.
func ExampleHooks() {
	count := func(_ context.Context, i lock.HookInfo) {
		fmt.Println(i.Kind, i.Outcome) // waitSeconds.WithLabelValues(...).Observe(i.Waited.Seconds()), say
	}
	client, err := lock.New(memstore.New(), &lock.Options{Hooks: &lock.Hooks{
		Acquired: count,
		Refused:  count,
		Released: func(ctx context.Context, i lock.HookInfo) {
			count(ctx, i)
			fmt.Println("held for 10 ms or more:", i.Held >= 10*time.Millisecond)
		},
		Lost: count,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer client.Close(ctx)

	held, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Mutex("report").TryLock(ctx)
	fmt.Println(err != nil)
	time.Sleep(10 * time.Millisecond)
	if err := held.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// mutex acquired
	// mutex held_by_other
	// true
	// mutex unlocked
	// held for 10 ms or more: true
}
