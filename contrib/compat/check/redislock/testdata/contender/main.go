// Command contender increments two counters under locks of bsm/redislock, without atomic commands:
// two holders at a time lose an increment. It locks one key, the other, or both in one lock. It also counts how often the lock comes from a process
// of another name. The test builds it with that library, and with package contrib/compat/redislock in its
// place.
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

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func main() {
	log.SetFlags(0)
	name, key, addr := os.Args[1], os.Args[2], os.Args[4]
	rounds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	locker := redislock.New(client)
	for round := range rounds {
		if err := run(context.Background(), locker, client, name, key, round); err != nil {
			log.Fatalf("%s, round %d: %v", name, round, err)
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // for the other processes
	}
}

// run is one round.
func run(ctx context.Context, locker *redislock.Client, client *redis.Client, name, key string, round int) error {
	keys := [][]string{{key}, {key + ":second"}, {key, key + ":second"}, {key + ":second", key}}[round%4]
	lock, err := locker.ObtainMulti(ctx, keys, time.Minute, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		lock, err = locker.ObtainMulti(ctx, keys, time.Minute, &redislock.Options{
			RetryStrategy: redislock.LinearBackoff(500 * time.Microsecond),
			Metadata:      name,
		})
	}
	if err != nil {
		return fmt.Errorf("obtain: %w", err)
	}
	for _, key := range lock.Keys() {
		if err := increment(ctx, client, key, name); err != nil {
			return err
		}
	}
	if round%10 == 0 {
		if err := lock.Refresh(ctx, time.Minute, nil); err != nil {
			return fmt.Errorf("refresh: %w", err)
		}
		if left, err := lock.TTL(ctx); left == 0 || err != nil {
			return fmt.Errorf("ttl: %v, %w", left, err)
		}
	}
	if err := lock.Release(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// increment reads the counter, and then writes it.
func increment(ctx context.Context, client *redis.Client, key, name string) error {
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
