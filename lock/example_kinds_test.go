package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// One process leads at a time; the others wait, or watch who does.
func ExampleElection() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx := context.Background()
	leadership, err := client.Election("scheduler", "host-1").Campaign(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for leader, err := range client.Election("scheduler", "").Observe(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q leads, in the term of the lock's token: %v\n", leader.Name, leader.Term == leadership.Token())
		break
	}
	fmt.Println("resigned:", leadership.Unlock(ctx) == nil)
	// Output:
	// "host-1" leads, in the term of the lock's token: true
	// resigned: true
}

// A candidate leads until its ctx ends, and leads again after a loss.
func ExampleElection_Run() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond) // signal.NotifyContext in a program
	defer stop()
	err = client.Election("scheduler", "host-1").Run(ctx, func(ctx context.Context, leadership *lock.Held) error {
		fmt.Println("leading:", leadership.Valid())
		<-ctx.Done() // the work stops when ctx ends; then Run resigns
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading: true
	// lock: run "scheduler": context deadline exceeded
}

// A leader tells others where it can be reached, once it can.
func ExampleElection_Proclaim() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	election := client.Election("api", "host-1 starts")
	err = election.Run(context.Background(), func(ctx context.Context, leadership *lock.Held) error {
		if err := election.Proclaim(ctx, leadership, "host-1:8080"); err != nil {
			return err
		}
		leader, err := client.Election("api", "").Leader(ctx) // as another process would ask
		fmt.Println(leader.Name)
		return err
	})
	fmt.Println("error:", err)
	// Output:
	// host-1:8080
	// error: <nil>
}

// A job runs once per period, although each replica starts it when its own clock says so.
func ExampleTerms_minHold() {
	const period = time.Hour
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	hourly := client.With(lock.Terms{MinHold: period - period/10})

	for replica := range 3 { // each of them in a process of its own
		held, err := hourly.Mutex("report").TryLock(context.Background())
		if errors.Is(err, lock.ErrNotAcquired) {
			fmt.Printf("replica %d: the report of this hour is done, or being done\n", replica)
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("replica %d: writes the report\n", replica)
		if err := held.Unlock(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// replica 0: writes the report
	// replica 1: the report of this hour is done, or being done
	// replica 2: the report of this hour is done, or being done
}
