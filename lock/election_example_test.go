package lock_test

import (
	"context"
	"fmt"

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

func ExampleElection_do() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	err = lock.Do(context.Background(), client.Election("scheduler", "host-1"), func(ctx context.Context) error {
		fmt.Println("leading") // until ctx ends
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// leading
	// error: <nil>
}
