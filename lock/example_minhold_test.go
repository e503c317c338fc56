package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

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
