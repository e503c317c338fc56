package lock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// What a program exports as metrics: figures of Stats when it is asked for them, and
// losses when they happen.
func ExampleClient_Stats() {
	lost := make(chan string, 1)
	store := memstore.New()
	client, err := lock.New(store, &lock.Options{
		Terms: lock.Terms{TTL: time.Second},
		Renewal: renewal.Options{Hooks: &renewal.Hooks{
			Lost: func(i renewal.LostInfo) { lost <- i.Lease.(lock.Lease).Key },
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	if _, err := client.Mutex("orders").Lock(context.Background()); err != nil {
		fmt.Println(err)
		return
	}

	store.Delete("orders") // as an operator might
	fmt.Println("lost:", <-lost)
	stats := client.Stats().Renewal
	fmt.Println("held:", stats.Held, "losses:", stats.Lost())
	// Output:
	// lost: orders
	// held: 0 losses: 1
}
