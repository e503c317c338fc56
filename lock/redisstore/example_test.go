package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// The example needs a server at REDIS_ADDR.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	defer rdb.Close()
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(store, nil) // one client for the whole process
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx) // closes the store too

	err = lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, _ *lock.Held) error {
		return ctx.Err() // do the work here; ctx ends if the lock is lost
	})
	if errors.Is(err, lock.ErrLost) {
		fmt.Println("the lock was lost during the work")
	}
}

// A program that refuses to start on a server that is unsafe for locks. The example needs a
// server at REDIS_ADDR.
func ExampleStore_Check() {
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	defer rdb.Close()
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	report, err := store.Check(context.Background(), &redisstore.CheckOptions{TTL: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report) // what was found, what it means and what to do
	if !report.Safe() {
		fmt.Println("this server is not used")
	}
}

// A lock counts as acquired only if a replica has it. The example needs a server at REDIS_ADDR.
func ExampleReplicas() {
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	defer rdb.Close()
	store, err := redisstore.New(rdb, &redisstore.Options{
		Replicas: redisstore.Replicas{Count: 1, Require: true, Renewals: true},
	})
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

	held, err := client.Mutex("orders").TryLock(context.Background())
	var short *driver.ReplicasError
	switch {
	case errors.As(err, &short): // matches lock.ErrUnavailable, too
		fmt.Println(short.Got, "of", short.Want, "replicas have confirmed the lock")
	case err == nil:
		n, _ := held.Replicas()
		fmt.Println("replicas that have the lock:", n)
		_ = held.Unlock(context.Background())
	}
}

// Which policies are refused.
func ExampleReplicas_mistake() {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	_, err := redisstore.New(rdb, &redisstore.Options{Replicas: redisstore.Replicas{Require: true}})
	fmt.Println(err)
	// Output: redisstore: Options.Replicas.Count must be set if another field of Replicas is
}

// The text of a finding.
func ExampleFinding() {
	fmt.Println(redisstore.Finding{
		Severity: redisstore.SeverityUnsafe,
		Code:     "eviction",
		Server:   "localhost:6379",
		Seen:     "maxmemory-policy is allkeys-lru, maxmemory is 104857600",
		Means:    "The server may delete locks that are held.",
		Do:       "Set maxmemory-policy to noeviction.",
	})
	// Output:
	//   unsafe     eviction: maxmemory-policy is allkeys-lru, maxmemory is 104857600
	//              The server may delete locks that are held.
	//              Set maxmemory-policy to noeviction.
}

// A quorum of three independent servers: a lock needs two of them.
func Example_quorum() {
	var stores []driver.Store
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
	quorum, err := quorumstore.New(stores...)
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
