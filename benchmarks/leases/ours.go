package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
)

var (
	wheelEngine = contestant{
		name: "wheel", ours: true, how: "this module with the wheel, its default engine",
		key:  func(i int) string { return "lw:{" + lockName(i) + "}" },
		open: func(o order) (client, error) { return openOurs(o, &lock.Options{}) },
	}
	heapEngine = contestant{
		name: "heap", ours: true, how: "this module with the blocking queue as its engine",
		key: wheelEngine.key,
		open: func(o order) (client, error) {
			engine, err := heapqueue.NewScheduler(nil)
			if err != nil {
				return nil, err
			}
			return openOurs(o, &lock.Options{Scheduler: engine})
		},
	}
)

// ours is a client of this module, used as its documentation says.
type ours struct {
	client *lock.Client
	held   []*lock.Held
	gate   chan struct{} // of the store
}

func openOurs(o order, opts *lock.Options) (client, error) {
	store, err := redisstore.New(o.redis(), nil)
	if err != nil {
		return nil, err
	}
	c := &ours{held: make([]*lock.Held, o.Leases), gate: make(chan struct{})}
	opts.Terms = lock.Terms{TTL: o.TTL}
	if !o.FlatOut {
		c.client, err = lock.New(store, opts)
		return c, err
	}
	opts.Renewal = renewal.Options{Fraction: flatOutFraction, Timeout: o.period()}
	c.client, err = lock.New(&gated{store, c.gate}, opts)
	return c, err
}

// flatOutFraction of a TTL is a period so short that every lease is due for
// renewal as soon as it has been renewed. A call may take longer.
const flatOutFraction = 1.0 / 3000

// gated is a store that renews nothing before its gate is open: those who renew
// without pause would leave nothing of the server to those who still acquire.
type gated struct {
	*redisstore.Store
	gate <-chan struct{}
}

// Renew implements renewal.Renewer.
func (g *gated) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	select {
	case <-g.gate:
		return g.Store.Renew(ctx, batch, out)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *ours) allHeld() { close(c.gate) }

func (c *ours) lock(ctx context.Context, i int) (err error) {
	c.held[i], err = c.client.Mutex(lockName(i)).TryLock(ctx)
	return err
}

func (c *ours) tell() tally {
	s := c.client.Stats().Renewal
	return tally{lost: int(s.Lost()), late: s.Late}
}

// redis returns a client of the servers of an order.
func (o order) redis() redis.UniversalClient {
	if len(o.Addrs) > 1 {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: o.Addrs})
	}
	return redis.NewClient(&redis.Options{Addr: o.Addrs[0], PoolSize: poolSize})
}

// poolSize gives each of those that lock at one time a connection.
const poolSize = 64
