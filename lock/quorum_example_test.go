package lock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Three servers that know nothing of each other: the lock goes on while one of them
// is down.
func ExampleQuorum() {
	one, two, three := memstore.New(), memstore.New(), memstore.New() // redisstore.New(...) for servers
	quorum, err := lock.Quorum(one, two, three)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(quorum, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background()) // closes the stores too

	one.Close() // is down
	held, err := client.Mutex("orders").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid:", held.Valid(), "token:", held.Token()) // a quorum has no fencing tokens
	_, err = client.Mutex("orders").TryLock(context.Background())
	fmt.Println("taken:", errors.Is(err, lock.ErrNotAcquired))
	fmt.Println("unlock:", held.Unlock(context.Background()))
	// Output:
	// valid: true token: 0
	// taken: true
	// unlock: <nil>
}
