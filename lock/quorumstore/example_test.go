package quorumstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

// Three independent servers keep a lock while one of them is down.
func ExampleNew() {
	one, two, three := memstore.New(), memstore.New(), memstore.New() // use redisstore.New for servers
	quorum, err := quorumstore.New(one, two, three)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(quorum, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background()) // also closes the stores

	one.Close() // the first server is down
	held, err := client.Mutex("orders").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid:", held.Valid(), "token:", held.Token()) // a quorum has no fencing tokens
	_, err = client.Mutex("orders").TryLock(context.Background())
	fmt.Println("held by another:", errors.Is(err, driver.ErrNotAcquired))
	fmt.Println("unlock:", held.Unlock(context.Background()))
	// Output:
	// valid: true token: 0
	// held by another: true
	// unlock: <nil>
}
