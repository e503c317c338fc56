// The adapters of redislock and redsync.

package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func goredisCandidates() []*candidate {
	redislockModules := append([]string{"github.com/bsm/redislock"}, goredisOnly...)
	redsyncModules := append([]string{"github.com/go-redsync/redsync/v4"}, goredisOnly...)
	return []*candidate{
		{
			name: "redislock", store: redisServer, modules: redislockModules, renews: true, open: openRedislock, lockKey: "%s",
			note: "the watchdog of its README; tries again after 100 ms",
		},
		{name: "redsync", store: redisServer, modules: redsyncModules, open: openRedsync, lockKey: "%s", note: "not renewed, no documented watchdog"},
		{name: "redsync on 3 Redis", store: redisServers, modules: redsyncModules, open: openRedsync, lockKey: "%s", note: "like redsync"},
	}
}

func openRedislock(_ context.Context, addrs []string) (acquirer, error) {
	client := redislock.New(redis.NewClient(&redis.Options{Addr: addrs[0]}))
	const interval = 100 * time.Millisecond // the value of its example
	return func(ctx context.Context, key string) (*grant, error) {
		waiting, end := context.WithTimeout(ctx, time.Hour) // without a deadline Obtain gives up after one TTL
		defer end()
		l, err := client.Obtain(waiting, key, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(interval)})
		if err != nil {
			return nil, err
		}
		work, cancel := context.WithCancel(context.Background())
		go watchdog(work, cancel, l)
		return &grant{holds: func() bool { return work.Err() == nil }, release: func(ctx context.Context) error {
			cancel()
			return l.Release(ctx)
		}}, nil
	}, nil
}

// watchdog does what the README of redislock shows.
func watchdog(work context.Context, cancel context.CancelFunc, l *redislock.Lock) {
	t := time.NewTicker(lease / 3)
	defer t.Stop()
	for {
		select {
		case <-work.Done():
			return
		case <-t.C:
			if err := l.Refresh(work, lease, nil); err != nil {
				cancel()
				return
			}
		}
	}
}

func openRedsync(_ context.Context, addrs []string) (acquirer, error) {
	var pools []redsyncredis.Pool
	for _, a := range addrs {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: a})))
	}
	client := redsync.New(pools...)
	return func(ctx context.Context, key string) (*grant, error) {
		m := client.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1<<30))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return &grant{holds: func() bool { return time.Now().Before(m.Until()) }, release: func(ctx context.Context) error {
			ok, err := m.UnlockContext(ctx)
			if err == nil && !ok {
				return errors.New("redsync: not unlocked")
			}
			return err
		}}, nil
	}, nil
}
