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
	same := func(key string) string { return key }
	redislockModules := append([]string{"github.com/bsm/redislock"}, goredisOnly...)
	redsyncModules := append([]string{"github.com/go-redsync/redsync/v4"}, goredisOnly...)
	return []*candidate{
		{
			name: "redislock", store: redisServer, modules: redislockModules, renews: true, open: openRedislock, lockKey: same,
			note: "the watchdog of its README; tries again after 100 ms",
		},
		{name: "redsync", store: redisServer, modules: redsyncModules, open: openRedsync, lockKey: same, note: "not renewed, no documented watchdog"},
		{name: "redsync on 3 Redis", store: redisServers, modules: redsyncModules, open: openRedsync, lockKey: same, note: "like redsync"},
	}
}

func openRedislock(_ context.Context, addrs []string) (Client, error) {
	return redislockClient{redislock.New(redis.NewClient(&redis.Options{Addr: addrs[0]}))}, nil
}

type redislockClient struct{ *redislock.Client }

// Acquire implements Client. Obtain gives up after one TTL unless its context has a deadline.
func (c redislockClient) Acquire(ctx context.Context, key string) (Lease, error) {
	const interval = 100 * time.Millisecond // the value of its example
	waiting, end := context.WithTimeout(ctx, time.Hour)
	defer end()
	l, err := c.Obtain(waiting, key, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(interval)})
	if err != nil {
		return nil, err
	}
	work, cancel := context.WithCancel(context.Background())
	go watchdog(work, cancel, l)
	return redislockLease{l, work, cancel}, nil
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

type redislockLease struct {
	lock   *redislock.Lock
	work   context.Context
	cancel context.CancelFunc
}

// Holds implements Lease.
func (l redislockLease) Holds() bool { return l.work.Err() == nil }

// Token implements Lease.
func (redislockLease) Token() uint64 { return 0 }

// Release implements Lease.
func (l redislockLease) Release(ctx context.Context) error {
	l.cancel()
	return l.lock.Release(ctx)
}

func openRedsync(_ context.Context, addrs []string) (Client, error) {
	var pools []redsyncredis.Pool
	for _, a := range addrs {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: a})))
	}
	return redsyncClient{redsync.New(pools...)}, nil
}

type redsyncClient struct{ *redsync.Redsync }

// Acquire implements Client.
func (c redsyncClient) Acquire(ctx context.Context, key string) (Lease, error) {
	m := c.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1<<30))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncLease{m}, nil
}

type redsyncLease struct{ *redsync.Mutex }

// Holds implements Lease.
func (l redsyncLease) Holds() bool { return time.Now().Before(l.Until()) }

// Token implements Lease.
func (redsyncLease) Token() uint64 { return 0 }

// Release implements Lease.
func (l redsyncLease) Release(ctx context.Context) error {
	ok, err := l.UnlockContext(ctx)
	if err == nil && !ok {
		return errors.New("redsync: not unlocked")
	}
	return err
}
