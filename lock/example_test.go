package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func ExampleDo() {
	client, err := lock.New(memstore.New(), nil) // redisstore.New(rdb, nil) for a server
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	err = lock.Do(context.Background(), client.Mutex("orders"), func(ctx context.Context, held *lock.Held) error {
		fmt.Println("holding the lock:", held.Valid()) // ctx ends if it is lost
		fmt.Println("with a fencing token:", held.Token() > 0)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// holding the lock: true
	// with a fencing token: true
	// error: <nil>
}

func ExampleMutex_Lock() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	held, err := client.Mutex("orders").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(ctx)

	if !held.Valid() { // right before a step that needs the lock
		fmt.Println(held.Err())
		return
	}
	fmt.Println("valid, with a token:", held.Token() > 0)
	// Output: valid, with a token: true
}

// Those who wait are served in order. How long is up to the context.
func ExampleMutex_Lock_waiting() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	mutex := client.Mutex("orders")
	first, err := mutex.Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}

	short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = mutex.Lock(short)
	fmt.Println("in time:", !errors.Is(err, lock.ErrNotAcquired))

	served := make(chan bool)
	go func() {
		second, err := mutex.Lock(context.Background())
		served <- err == nil && second.Token() > first.Token()
	}()
	fmt.Println("unlocked:", first.Unlock(context.Background()) == nil)
	fmt.Println("handed over:", <-served)
	// Output:
	// in time: false
	// unlocked: true
	// handed over: true
}

func ExampleMutex_TryLock() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx := context.Background()
	held, err := client.Mutex("orders").TryLock(ctx)
	fmt.Println("first:", err)
	_, err = client.Mutex("orders").TryLock(ctx)
	fmt.Println("second not acquired:", errors.Is(err, lock.ErrNotAcquired))
	fmt.Println("unlock:", held.Unlock(ctx))
	// Output:
	// first: <nil>
	// second not acquired: true
	// unlock: <nil>
}

// Renewals run on either engine: the heap is exact, the wheel the default.
func ExampleOptions_scheduler() {
	engine, err := heapqueue.NewScheduler(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close() // after the client
	client, err := lock.New(memstore.New(), &lock.Options{Scheduler: engine})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	held, err := client.Mutex("orders").Lock(context.Background())
	fmt.Println(held, err)
	// Output: exclusive lease of "orders" <nil>
}

func ExampleClient_With() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	nightly := client.With(lock.Terms{TTL: time.Minute, MaxHold: time.Hour})
	held, err := nightly.Mutex("report").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(time.Until(held.Deadline()) > 50*time.Second)
	// Output: true
}

// The ownership is in the context: what holds the lock can call what locks it too.
func ExampleReentrant() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	book := func(ctx context.Context) error {
		return lock.Do(ctx, client.Reentrant("orders"), func(context.Context, *lock.Held) error {
			fmt.Println("booked")
			return nil
		})
	}
	ship := func(ctx context.Context) error {
		return lock.Do(ctx, client.Reentrant("orders"), func(ctx context.Context, _ *lock.Held) error {
			fmt.Println("shipping")
			return book(ctx) // enters the lock that ctx carries
		})
	}
	fmt.Println("error:", ship(context.Background()))
	// Output:
	// shipping
	// booked
	// error: <nil>
}

// Two accounts, on two stores: all or nothing, and no order to keep to.
func ExampleMulti() {
	here, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer here.Close(context.Background())
	there, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer there.Close(context.Background())

	both := lock.Multi(here.Mutex("from"), there.Mutex("to"))
	held, err := both.Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range held.Handles() {
		fmt.Println(m.Key(), m.Token() > 0)
	}
	_, err = there.Mutex("to").TryLock(context.Background())
	fmt.Println("taken:", errors.Is(err, lock.ErrNotAcquired))
	fmt.Println("unlock:", held.Unlock(context.Background()))
	// Output:
	// from true
	// to true
	// taken: true
	// unlock: <nil>
}

// A lease that nothing renews, for work of a known length.
func ExampleTerms_fixed() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	brief := client.With(lock.Terms{TTL: 100 * time.Millisecond, Fixed: true})
	held, err := brief.Mutex("orders").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	<-held.Done()
	fmt.Println("lost:", errors.Is(held.Err(), lock.ErrLost))
	// Output: lost: true
}

// A Fixed lease is not renewed in the background. The holder extends it itself.
func ExampleHeld_Renew() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx := context.Background()
	held, err := client.With(lock.Terms{TTL: 10 * time.Second, Fixed: true}).Mutex("import").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(ctx)

	if err := held.Renew(ctx, time.Minute); err != nil { // 0 for the same TTL again
		fmt.Println(err)
		return
	}
	fmt.Println(time.Until(held.Deadline()) > 50*time.Second)
	// Output: true
}
