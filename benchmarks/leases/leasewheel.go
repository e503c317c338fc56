// The clients of this module.

package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
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
	gate   chan struct{} // closed when all locks are acquired
}

func openOwnClient(t task, opts *lock.Options) (client, error) {
	store, err := redisstore.New(t.redis(), nil)
	if err != nil {
		return nil, err
	}
	c := &ownClient{held: make([]*lock.Held, t.Leases), gate: make(chan struct{})}
	opts.Terms = lock.Terms{TTL: t.TTL}
	if !t.Saturate {
		c.client, err = lock.New(store, opts)
		return c, err
	}
	opts.Renewal = renewal.Policy{Fraction: saturatingFraction, Timeout: t.period()}
	c.client, err = lock.New(&gatedStore{store, c.gate}, opts)
	return c, err
}

// saturatingFraction of a TTL is a period so short that a lease is due for renewal
// as soon as it has been renewed.
const saturatingFraction = 1.0 / 3000

// gatedStore delays renewals until its gate is closed. Otherwise the renewals would
// take the whole capacity of the server while other locks are being acquired.
type gatedStore struct {
	*redisstore.Store
	gate <-chan struct{}
}

// Renew implements renewal.Renewer.
func (g *gatedStore) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	select {
	case <-g.gate:
		return g.Store.Renew(ctx, batch, out)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *ownClient) ready() { close(c.gate) }

func (c *ownClient) lock(ctx context.Context, i int) (err error) {
	c.held[i], err = c.client.Mutex(lockName(i)).TryLock(ctx)
	return err
}

func (c *ownClient) stats() clientStats {
	s := c.client.Stats().Renewal
	return clientStats{lost: int(s.Lost()), late: s.Late}
}

// redis returns a go-redis client of the servers of a task.
func (t task) redis() redis.UniversalClient {
	if len(t.Addrs) > 1 {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: t.Addrs})
	}
	return redis.NewClient(&redis.Options{Addr: t.Addrs[0], PoolSize: poolSize})
}

// poolSize is a connection for each goroutine that acquires locks.
const poolSize = acquirers
