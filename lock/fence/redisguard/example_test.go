package redisguard_test

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/fence/redisguard"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// The example needs a Redis server at REDIS_ADDR.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	defer rdb.Close()
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	held, err := client.Mutex("stock").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(ctx)
	if err := redisguard.New(rdb).Set(ctx, "stock:apples", held.Token(), "7"); err != nil {
		fmt.Println("not written:", err)
	}
}
