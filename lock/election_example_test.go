package lock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

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
