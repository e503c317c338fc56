// The candidates: the clients of this module and of other libraries.

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// ttl is the TTL of all locks.
const ttl = 30 * time.Second

// candidate is a lock client under test, used as its documentation recommends.
type candidate struct {
	name string

	// usesSet means that the client sends SET as a command of its own. The SETs of the
	// other clients are part of their scripts.
	usesSet bool

	open func(addr string) (client, error)
}

// client is a lock client with connections of its own. The benchmark never closes
// it, because its process ends.
type client interface {
	// tryLock acquires a free lock without waiting.
	tryLock(ctx context.Context, key string) (unlockFunc, error)

	// lock waits for a lock that other clients hold.
	lock(ctx context.Context, key string) (unlockFunc, error)
}

// batchLocker locks several locks as one and unlocks them again.
type batchLocker interface {
	lockAndUnlockAll(ctx context.Context, members []string) error
}

// unlockFunc releases a lock.
type unlockFunc func(ctx context.Context) error

// candidates returns the candidates for single locks, in the order of the tables.
func candidates() []candidate {
	return []candidate{leasewheelCandidate, redsyncPeer, redislockPeer, rueidisPeer}
}

// batchCandidates returns the candidates for batches.
func batchCandidates() []candidate {
	return []candidate{leasewheelCandidate, leasewheelLoop, redsyncLoop}
}

func findCandidate(name string) (candidate, error) {
	for _, c := range slices.Concat(candidates(), batchCandidates()) {
		if c.name == name {
			return c, nil
		}
	}
	return candidate{}, fmt.Errorf("unknown candidate %q", name)
}

// poolSize is a connection for each goroutine, for the clients that have a pool.
const poolSize = 64

func goredisClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: poolSize})
}

var leasewheelCandidate = candidate{name: "leasewheel", open: func(addr string) (client, error) {
	c, err := openLeasewheel(addr)
	return leasewheelClient{c}, err
}}

func openLeasewheel(addr string) (*lock.Client, error) {
	store, err := redisstore.New(goredisClient(addr), nil)
	if err != nil {
		return nil, err
	}
	return lock.New(store, &lock.Options{Terms: lock.Terms{TTL: ttl}})
}

type leasewheelClient struct{ *lock.Client }

func (c leasewheelClient) lockAndUnlockAll(ctx context.Context, members []string) error {
	h, err := c.Batch("bench", members...).TryLock(ctx)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

// leasewheelLoop locks one lock after another.
var leasewheelLoop = candidate{name: "leasewheel, one by one", open: func(addr string) (client, error) {
	c, err := openLeasewheel(addr)
	return loopClient{leasewheelClient{c}}, err
}}

// redsyncLoop locks one lock after another. redsync has no batches.
var redsyncLoop = candidate{name: "redsync, one by one", open: func(addr string) (client, error) {
	c, err := redsyncPeer.open(addr)
	return loopClient{c}, err
}}

// loopClient locks several locks one after another.
type loopClient struct{ client }

func (l loopClient) lockAndUnlockAll(ctx context.Context, members []string) error {
	unlocks := make([]unlockFunc, 0, len(members))
	for _, m := range members {
		unlock, err := l.tryLock(ctx, m)
		if err != nil {
			return err
		}
		unlocks = append(unlocks, unlock)
	}
	for _, unlock := range unlocks {
		if err := unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c leasewheelClient) tryLock(ctx context.Context, key string) (unlockFunc, error) {
	h, err := c.Mutex(key).TryLock(ctx)
	return h.Unlock, err
}

func (c leasewheelClient) lock(ctx context.Context, key string) (unlockFunc, error) {
	h, err := c.Mutex(key).Lock(ctx)
	return h.Unlock, err
}

var redsyncPeer = candidate{name: "redsync", usesSet: true, open: func(addr string) (client, error) {
	return redsyncClient{redsync.New(goredis.NewPool(goredisClient(addr)))}, nil
}}

type redsyncClient struct{ *redsync.Redsync }

func (c redsyncClient) tryLock(ctx context.Context, key string) (unlockFunc, error) {
	m := c.NewMutex(key, redsync.WithExpiry(ttl))
	return unlockRedsync(m), m.TryLockContext(ctx)
}

func (c redsyncClient) lock(ctx context.Context, key string) (unlockFunc, error) {
	m := c.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
	return unlockRedsync(m), m.LockContext(ctx)
}

func unlockRedsync(m *redsync.Mutex) unlockFunc {
	return func(ctx context.Context) error {
		_, err := m.UnlockContext(ctx)
		return err
	}
}

var redislockPeer = candidate{name: "redislock", open: func(addr string) (client, error) {
	return redislockClient{redislock.New(goredisClient(addr))}, nil
}}

type redislockClient struct{ *redislock.Client }

func (c redislockClient) tryLock(ctx context.Context, key string) (unlockFunc, error) {
	l, err := c.Obtain(ctx, key, ttl, nil)
	return l.Release, err
}

func (c redislockClient) lock(ctx context.Context, key string) (unlockFunc, error) {
	const interval = 100 * time.Millisecond // the value of its README
	l, err := c.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(interval)})
	return l.Release, err
}

var rueidisPeer = candidate{name: "rueidislock", open: func(addr string) (client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyValidity:    ttl,
		ExtendInterval: ttl / 3,
		KeyMajority:    1,
		TryNextAfter:   time.Second, // the default of 20 ms is too short for 64 goroutines that start at once
		NoLoopTracking: true,
	})
	return rueidisClient{locker}, err
}}

type rueidisClient struct{ rueidislock.Locker }

func (c rueidisClient) tryLock(_ context.Context, key string) (unlockFunc, error) {
	_, cancel, err := c.TryWithContext(context.Background(), key) // the lock ends with its context
	return unlockRueidis(cancel), err
}

func (c rueidisClient) lock(ctx context.Context, key string) (unlockFunc, error) {
	_, cancel, err := c.WithContext(ctx, key)
	return unlockRueidis(cancel), err
}

func unlockRueidis(cancel context.CancelFunc) unlockFunc {
	return func(context.Context) error {
		cancel()
		return nil
	}
}
