package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func ExampleRWMutex() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()
	prices := client.RWMutex("prices")

	err = lock.Do(ctx, prices.RLocker(), func(ctx context.Context, _ *lock.Held) error {
		other, err := prices.TryRLock(ctx) // readers share it
		if err != nil {
			return err
		}
		return other.Unlock(ctx)
	})
	fmt.Println("read:", err)
	err = lock.Do(ctx, prices, func(context.Context, *lock.Held) error {
		_, err := prices.TryRLock(ctx) // as another caller would
		fmt.Println("refused while it is written:", errors.Is(err, lock.ErrNotAcquired))
		return nil
	})
	fmt.Println("written:", err)
	// Output:
	// read: <nil>
	// refused while it is written: true
	// written: <nil>
}

// A writer reads on what it wrote, together with others, before any other writer.
func ExampleRWMutex_Downgrade() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()
	prices := client.RWMutex("prices")

	writer, err := prices.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	reader, err := prices.Downgrade(ctx, writer)
	if err != nil {
		fmt.Println(err) // and nothing is held
		return
	}
	defer reader.Unlock(ctx)
	other, err := prices.TryRLock(ctx)
	fmt.Println("others read:", err == nil)
	other.Unlock(ctx)
	fmt.Println("the writer has ended:", errors.Is(writer.Err(), lock.ErrNotHeld))
	fmt.Println("the same lease:", reader.Token() == writer.Token())
	// Output:
	// others read: true
	// the writer has ended: true
	// the same lease: true
}

func ExampleSemaphore() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()
	exports := client.Semaphore("exports", 2) // two at a time, in all processes

	first, err := exports.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Unlock(ctx)
	second, err := exports.TryLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = exports.TryLock(ctx)
	fmt.Println("a third one:", errors.Is(err, lock.ErrNotAcquired))
	second.Unlock(ctx)
	third, err := exports.TryLock(ctx)
	fmt.Println("then:", err)
	third.Unlock(ctx)
	// Output:
	// a third one: true
	// then: <nil>
}

// A thousand orders are locked by one request, all or none of them.
func ExampleBatch() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprint("order-", i)
	}

	err = lock.Do(context.Background(), client.Batch("orders", ids...), func(ctx context.Context, _ *lock.Held) error {
		_, err := client.Batch("orders", "order-7", "order-2000").TryLock(context.Background())
		fmt.Println("one of them is taken:", errors.Is(err, lock.ErrNotAcquired))
		inner, err := client.Batch("orders", "order-7").Lock(ctx) // whose ctx is inside: entered again
		if err != nil {
			return err
		}
		return inner.Unlock(ctx)
	})
	fmt.Println("error:", err)
	// Output:
	// one of them is taken: true
	// error: <nil>
}
