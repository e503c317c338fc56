package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A program of one process, or a test, needs no server.
func Example() {
	client, err := lock.New(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background()) // closes the store, too

	held, err := client.Mutex("orders").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid:", held.Valid())
	fmt.Println("unlock:", held.Unlock(context.Background()))
	// Output:
	// valid: true
	// unlock: <nil>
}

// A test can look at the store, and take a lock away as an operator may do.
func ExampleStore_Delete() {
	store := memstore.New()
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: 300 * time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	held, err := client.Mutex("orders").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held locks:", store.Len())
	fmt.Println("deleted:", store.Delete("orders"))
	<-held.Done() // after the next renewal, within a third of the TTL
	fmt.Println("lost:", errors.Is(held.Err(), lock.ErrLost))
	fmt.Println("held locks:", store.Len())
	// Output:
	// held locks: 1
	// deleted: true
	// lost: true
	// held locks: 0
}
