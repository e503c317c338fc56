package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/contrib/compat/redislock"
)

// A job that moves goods between two warehouses locks both at once. Two jobs that name them in
// different orders cannot wait for each other.
func ExampleClient_ObtainMulti() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	locker := redislock.New(rdb)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	keys := []string{"{stock}:berlin", "{stock}:oslo"} // the hash tag puts both in one slot of a cluster
	both, err := locker.ObtainMulti(ctx, keys, 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(50 * time.Millisecond),
	})
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		fmt.Println("another job has one of", keys)
		return
	case err != nil:
		log.Println(err)
		return
	}
	defer both.Release(context.WithoutCancel(ctx))
	fmt.Println("move goods under", both.Keys())
}

// A Refresh with a strategy bridges errors of the server. ErrNotObtained is final.
func ExampleLock_Refresh() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	ctx := context.Background()
	got, err := redislock.Obtain(ctx, rdb, "report", 30*time.Second, nil)
	if err != nil {
		log.Println(err)
		return
	}
	defer got.Release(ctx)

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // well within the TTL
	defer cancel()
	err = got.Refresh(ctx, 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.ExponentialBackoff(16*time.Millisecond, time.Second),
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		log.Println("the lock is lost: stop the work")
	}
}
