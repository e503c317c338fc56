package redisson_test

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisson"
)

// A service that excludes Java services, which call redisson.getFairLock("orders").lock(). The example
// needs a server at REDIS_ADDR.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	defer rdb.Close()
	store, err := redisson.New(rdb, &redisson.Options{Kind: redisson.KindFairLock})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx) // closes the store too

	err = lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, _ *lock.Held) error {
		return ctx.Err() // do the work here; ctx ends if the lock is lost
	})
	if err != nil {
		fmt.Println(err)
	}
}
