// The clients of this module.

package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

var (
	wheelEngine = candidate{
		name: "wheel", ours: true,
		key:  func(i int) string { return "lw:{" + lockName(i) + "}" },
		open: func(t task) (client, error) { return openOwnClient(t, &lock.Options{}) },
	}
	heapEngine = candidate{
		name: "heap", ours: true,
		key: wheelEngine.key,
		open: func(t task) (client, error) {
			engine, err := heapqueue.NewScheduler(nil)
			if err != nil {
				return nil, err
			}
			return openOwnClient(t, &lock.Options{Scheduler: engine})
		},
	}
)

// ownClient is a client of this module.
type ownClient struct {
	client *lock.Client
	held   []*lock.Held
}

func openOwnClient(t task, opts *lock.Options) (client, error) {
	store, err := redisstore.New(t.redis(), nil)
	if err != nil {
		return nil, err
	}
	c := &ownClient{held: make([]*lock.Held, t.Leases)}
	opts.Terms = lock.Terms{TTL: t.TTL}
	c.client, err = lock.New(store, opts)
	return c, err
}

func (c *ownClient) lock(ctx context.Context, i int) (err error) {
	c.held[i], err = c.client.Mutex(lockName(i)).TryLock(ctx)
	return err
}

func (c *ownClient) lost() int { return int(c.client.Stats().Renewal.Lost()) }

// redis returns a go-redis client of the servers of a task.
func (t task) redis() redis.UniversalClient {
	if len(t.Addrs) > 1 {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: t.Addrs})
	}
	return redis.NewClient(&redis.Options{Addr: t.Addrs[0], PoolSize: poolSize})
}

// poolSize is a connection for each goroutine that acquires locks.
const poolSize = acquirers
