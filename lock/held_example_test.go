package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/fence"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// Work that can stop at any point gets a context that ends when the lock is lost. [Do] makes
// such a context, too.
func ExampleHeld_Context() {
	store := memstore.New()
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: 100 * time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	held, err := client.Mutex("import").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, stop := held.Context(context.Background())
	defer stop()
	for row := range 10 {
		if row == 3 {
			store.Delete("import") // as an operator or a fault may do
			<-ctx.Done()           // the next renewal finds out
		}
		if ctx.Err() != nil { // and each call that takes long gets ctx
			fmt.Println("stopped before row", row)
			break
		}
	}
	fmt.Println("lost:", errors.Is(context.Cause(ctx), lock.ErrLost))
	fmt.Println("unlock tells, too:", errors.Is(held.Unlock(context.Background()), lock.ErrLost))
	// Output:
	// stopped before row 3
	// lost: true
	// unlock tells, too: true
}

// Work that is useful even without the lock goes on after a loss. Only the step that matters
// needs the lock, and Valid is called right before it.
func ExampleHeld_Valid() {
	store := memstore.New()
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: 100 * time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	report := func(lose bool) error {
		return lock.Do(context.Background(), client.Mutex("report"), func(_ context.Context, held *lock.Held) error {
			if lose {
				store.Delete("report")
				<-held.Done()
			}
			fmt.Println("computed and cached") // does no harm if another holder does it, too
			if !held.Valid() {
				return held.Err()
			}
			fmt.Println("published") // must not be done twice
			return nil
		})
	}
	fmt.Println("error:", report(false))
	fmt.Println("lost:", errors.Is(report(true), lock.ErrLost))
	// Output:
	// computed and cached
	// published
	// error: <nil>
	// computed and cached
	// lost: true
}

// A resource that compares tokens needs no holder that stops in time. The holder sends its
// token with each request, and the resource refuses it once a later holder has been there.
func ExampleHeld_Token() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()
	guard := fence.NewMemory(0) // a part of the resource
	write := func(held *lock.Held) error {
		leave, err := guard.Enter(ctx, "stock", held.Token())
		if err != nil {
			return err
		}
		defer leave()
		return nil // the write
	}

	first, err := client.Mutex("stock").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first:", write(first))
	if err := client.ForceRelease(ctx, "stock"); err != nil { // or the first process is paused for too long
		fmt.Println(err)
		return
	}
	next, err := client.Mutex("stock").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("next:", write(next))
	fmt.Println("first does not know of the loss:", first.Valid())
	fmt.Println("but it is refused:", errors.Is(write(first), fence.ErrStale))
	// Output:
	// first: <nil>
	// next: <nil>
	// first does not know of the loss: true
	// but it is refused: true
}

// A goroutine that has no context to watch can watch the channel of Done.
func ExampleHeld_Done() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	brief := client.With(lock.Terms{TTL: time.Second, MaxHold: 100 * time.Millisecond})
	held, err := brief.Mutex("orders").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(context.Background())

	<-held.Done()
	if lost, ok := errors.AsType[*renewal.LostError](held.Err()); ok {
		fmt.Println("lost:", lost.Reason)
	}
	// Output: lost: limit reached
}
