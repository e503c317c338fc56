package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// It needs a server, at REDIS_ADDR.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	defer rdb.Close()
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(store, nil) // one for the whole process
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx) // closes the store too

	err = lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context) error {
		return ctx.Err() // work that ends with ctx, which ends if the lock is lost
	})
	if errors.Is(err, lock.ErrLost) {
		fmt.Println("the work was not protected to its end")
	}
}

// Three servers that know nothing of each other, of which two decide.
func Example_quorum() {
	var stores []lock.Store
	for _, addr := range []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		store, err := redisstore.New(rdb, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		stores = append(stores, store)
	}
	quorum, err := lock.Quorum(stores...)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(quorum, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
}
