package redlock_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redlock"
)

// A program takes a lock that programs with redsync, bsm/redislock, redis-py or node-redlock take,
// too. The example is not run, because it needs a server.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	store, err := redlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	err = lock.Do(context.Background(), client.Mutex("report"), func(ctx context.Context, held *lock.Held) error {
		fmt.Println("nobody else makes the report, in whatever language")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
}
