// Clients whose faults are known: the harness must find them. They are not in the
// page.

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/legacy"
)

func hiddenCandidates() []*candidate {
	mutant := func(name string, change func(l leasewheelLease, rdb *redis.Client, key string) Lease) *candidate {
		return &candidate{
			name: name, store: redisServer, renews: true, hidden: true, lockKey: oursKey,
			open: func(ctx context.Context, addrs []string) (Client, error) {
				c, err := openOurs(oursOnRedis)(ctx, addrs)
				return mutantClient{c, redis.NewClient(&redis.Options{Addr: addrs[0]}), change}, err
			},
		}
	}
	return []*candidate{
		{
			name: "in one process", store: redisServer, renews: true, hidden: true, single: true, open: openLocal,
			without: map[string]string{"kill-1": inOne, "kill-20": inOne, "late-release": "a release cannot be late"},
		},
		{name: "SETNX and EXPIRE", store: redisServer, hidden: true, open: openSetNX, lockKey: func(key string) string { return key }},
		mutant("told late", func(l leasewheelLease, _ *redis.Client, _ string) Lease { return &lateLease{leasewheelLease: l} }),
		mutant("no deadline", func(l leasewheelLease, _ *redis.Client, _ string) Lease { return deniedLease{l} }),
		mutant("release without compare", func(l leasewheelLease, rdb *redis.Client, key string) Lease { return carelessLease{l, rdb, key} }),
	}
}

// mutantClient changes the leases of this project's client.
type mutantClient struct {
	Client
	rdb    *redis.Client
	change func(l leasewheelLease, rdb *redis.Client, key string) Lease
}

// Acquire implements Client.
func (c mutantClient) Acquire(ctx context.Context, key string) (Lease, error) {
	l, err := c.Client.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.change(l.(leasewheelLease), c.rdb, key), nil
}

// lateLease tells half a second late.
type lateLease struct {
	leasewheelLease
	mu   sync.Mutex // guards ends
	ends time.Time
}

// Holds implements Lease.
func (l *lateLease) Holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.leasewheelLease.Holds():
		return true
	case l.ends.IsZero():
		l.ends = time.Now().Add(lease / 4)
	}
	return time.Now().Before(l.ends)
}

// deniedLease tells only what the server has said.
type deniedLease struct{ leasewheelLease }

// Holds implements Lease.
func (l deniedLease) Holds() bool {
	var lost *renewal.LostError
	return !errors.As(l.held.Err(), &lost) || lost.Reason != renewal.ReasonNotOwned
}

// carelessLease deletes the key of the lock, even if another client holds it.
type carelessLease struct {
	leasewheelLease
	rdb *redis.Client
	key string
}

// Release implements Lease.
func (l carelessLease) Release(ctx context.Context) error {
	if err := l.held.Detach(); err != nil {
		return err
	}
	return l.rdb.Del(ctx, oursKey(l.key)).Err()
}

// openSetNX opens the lock of old tutorials.
func openSetNX(_ context.Context, addrs []string) (Client, error) {
	return setnxClient{redis.NewClient(&redis.Options{Addr: addrs[0]})}, nil
}

type setnxClient struct{ rdb *redis.Client }

// Acquire implements Client.
func (c setnxClient) Acquire(ctx context.Context, key string) (Lease, error) {
	l := &legacy.SetNX{Redis: c.rdb, Key: key, Value: rand.Text(), TTL: lease}
	for {
		ok, err := l.TryLock(ctx)
		switch {
		case err != nil:
			return nil, err
		case ok:
			return setnxLease{l, time.Now().Add(lease)}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

type setnxLease struct {
	lock *legacy.SetNX
	ends time.Time
}

// Holds implements Lease.
func (l setnxLease) Holds() bool { return time.Now().Before(l.ends) }

// Token implements Lease.
func (setnxLease) Token() uint64 { return 0 }

// Release implements Lease.
func (l setnxLease) Release(ctx context.Context) error { return l.lock.Unlock(ctx) }

const inOne = "all sessions are in one process"

// local has the locks of one process, which no fault of a network reaches.
var local sync.Map // of chan struct{}, by key

func openLocal(context.Context, []string) (Client, error) { return localClient{}, nil }

type localClient struct{}

// Acquire implements Client.
func (localClient) Acquire(ctx context.Context, key string) (Lease, error) {
	c, _ := local.LoadOrStore(key, make(chan struct{}, 1))
	select {
	case c.(chan struct{}) <- struct{}{}:
		return localLease{c.(chan struct{})}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type localLease struct{ taken chan struct{} }

// Holds implements Lease.
func (localLease) Holds() bool { return true }

// Token implements Lease.
func (localLease) Token() uint64 { return 0 }

// Release implements Lease.
func (l localLease) Release(context.Context) error {
	<-l.taken
	return nil
}
