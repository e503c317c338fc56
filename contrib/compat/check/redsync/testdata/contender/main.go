// Command contender increments a counter under a lock of redsync, without atomic commands: two
// holders at a time lose an increment. It also counts how often the lock comes from a process of
// another name. The test builds it with redsync, and with package contrib/compat/redsync in its place.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

func main() {
	log.SetFlags(0)
	name, key, addrs := os.Args[1], os.Args[2], os.Args[4:]
	rounds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	var pools []redis.Pool
	var first *goredislib.Client
	for _, addr := range addrs {
		client := goredislib.NewClient(&goredislib.Options{Addr: addr})
		defer client.Close()
		pools = append(pools, goredis.NewPool(client))
		if first == nil {
			first = client
		}
	}
	mutex := redsync.New(pools...).NewMutex(key,
		redsync.WithExpiry(time.Minute),
		redsync.WithTries(100_000),
		redsync.WithRetryDelayFunc(func(tries int) time.Duration {
			return time.Duration(200+rand.IntN(800)) * time.Microsecond
		}))
	ctx := context.Background()
	for round := range rounds {
		if err := run(ctx, mutex, first, name, round); err != nil {
			log.Fatalf("%s, round %d: %v", name, round, err)
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // for the other processes
	}
}

// run is one round.
func run(ctx context.Context, mutex *redsync.Mutex, client *goredislib.Client, name string, round int) error {
	err := mutex.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if err != nil && !errors.As(err, &taken) {
		var node *redsync.ErrNodeTaken
		if !errors.As(err, &node) {
			return fmt.Errorf("try: %w", err)
		}
	}
	if err != nil {
		if err := mutex.LockContext(ctx); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
	}
	if err := increment(ctx, client, mutex.Name(), name); err != nil {
		return err
	}
	if round%10 == 0 {
		if ok, err := mutex.ExtendContext(ctx); !ok || err != nil {
			return fmt.Errorf("extend: %v, %w", ok, err)
		}
	}
	if !time.Now().Before(mutex.Until()) {
		return errors.New("expired")
	}
	if ok, err := mutex.UnlockContext(ctx); !ok || err != nil {
		return fmt.Errorf("unlock: %v, %w", ok, err)
	}
	return nil
}

// increment reads the counter, and then writes it.
func increment(ctx context.Context, client *goredislib.Client, key, name string) error {
	counter, last := key+":counter", key+":last"
	values, err := client.MGet(ctx, counter, last).Result()
	if err != nil {
		return err
	}
	n := 0
	if text, ok := values[0].(string); ok {
		if n, err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	pipe := client.Pipeline()
	pipe.Set(ctx, counter, n+1, 0)
	pipe.Set(ctx, last, name, 0)
	if before, ok := values[1].(string); ok {
		pipe.Incr(ctx, key+":"+before+">"+name)
	}
	_, err = pipe.Exec(ctx)
	return err
}
