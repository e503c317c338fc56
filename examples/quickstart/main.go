// Command quickstart is the shortest program with a lock on a Redis server, at localhost:6379.
// Without Redis, replace the store by memstore.New().
//
//	go run ./examples/quickstart
//
// The program cron shows how to choose the store by a flag.
package main

import (
	"context"
	"errors"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

func main() {
	ctx := context.Background()
	store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), nil)
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.New(store, nil) // one client per process
	if err != nil {
		log.Fatal(err)
	}
	err = work(ctx, client, func(ctx context.Context, held *lock.Held) error {
		log.Print("shipping with fencing token ", held.Token())
		return ctx.Err() // ctx is cancelled if the lock is lost
	})
	if err := errors.Join(err, client.Close(ctx)); err != nil { // Close releases what is still held
		log.Fatal(err)
	}
}

// work ships while it holds the lock. The error matches lock.ErrLost if the work was not protected to
// its end.
func work(ctx context.Context, client *lock.Client, ship func(ctx context.Context, held *lock.Held) error) error {
	return lock.Do(ctx, client.Mutex("orders"), ship)
}
