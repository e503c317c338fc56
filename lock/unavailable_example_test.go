package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// An HTTP service answers 409 while somebody else has the lock, and 503 while the store gives
// no answer.
func ExampleErrUnavailable() {
	server := faulttest.NewServer(memstore.New()) // in place of the store of the program
	client, err := lock.New(server, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	status := func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		held, err := client.Mutex("report").Lock(ctx)
		switch {
		case errors.Is(err, lock.ErrNotAcquired):
			return http.StatusConflict
		case errors.Is(err, lock.ErrUnavailable):
			return http.StatusServiceUnavailable
		case err != nil:
			return http.StatusInternalServerError
		}
		defer held.Unlock(context.Background())
		return http.StatusOK
	}

	fmt.Println("free:", status())
	held, err := client.Mutex("report").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("taken:", status())
	if err := held.Unlock(context.Background()); err != nil {
		fmt.Println(err)
	}
	server.Hang()
	fmt.Println("the store hangs:", status())
	server.Resume()
	// Output:
	// free: 200
	// taken: 409
	// the store hangs: 503
}
