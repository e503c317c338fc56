package zkstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

// The example is not run, because it needs servers.
func Example() {
	ctx := context.Background()
	servers := []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	store, err := zkstore.New(ctx, servers, &zkstore.Options{SessionTimeout: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: 10 * time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locks.Close(ctx) }() // also closes the store

	held, err := locks.Mutex("orders/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = held.Unlock(ctx) }()
	fmt.Println("fencing token:", held.Token())
}
