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

// ttl is that of all locks.
const ttl = 30 * time.Second

// contestant is a lock client under test, used as its documentation says.
type contestant struct {
	name string

	// plain says that it sends SET beside scripts. Those of the others that the
	// server counts are part of their scripts.
	plain bool

	open func(addr string) (client, error)
}

// client is a lock client with connections of its own. It is never closed: its
// process ends.
type client interface {
	// try gets a lock that is free, without waiting.
	try(ctx context.Context, key string) (unlock, error)

	// wait gets a lock that others hold.
	wait(ctx context.Context, key string) (unlock, error)
}

// severalClient can lock several locks as one, and unlocks them again.
type severalClient interface {
	lockAll(ctx context.Context, members []string) error
}

// unlock gives a lock back.
type unlock func(ctx context.Context) error

// contestants returns all that are measured with single locks, in the order of the
// tables.
func contestants() []contestant {
	return []contestant{ours, redsyncPeer, redislockPeer, rueidisPeer}
}

// ways returns all that are measured with several locks as one.
func ways() []contestant { return []contestant{ours, oursLoop, redsyncLoop} }

func find(name string) (contestant, error) {
	for _, c := range slices.Concat(contestants(), ways()) {
		if c.name == name {
			return c, nil
		}
	}
	return contestant{}, fmt.Errorf("there is no contestant %q", name)
}

// poolSize gives each of those that lock at one time a connection, where a client
// can use it.
const poolSize = 64

func goredisClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: poolSize})
}

var ours = contestant{name: "leasewheel", open: func(addr string) (client, error) {
	c, err := openOurs(addr)
	return leasewheel{c}, err
}}

func openOurs(addr string) (*lock.Client, error) {
	store, err := redisstore.New(goredisClient(addr), nil)
	if err != nil {
		return nil, err
	}
	return lock.New(store, &lock.Options{Terms: lock.Terms{TTL: ttl}})
}

type leasewheel struct{ *lock.Client }

func (c leasewheel) lockAll(ctx context.Context, members []string) error {
	h, err := c.Batch("bench", members...).TryLock(ctx)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

// oursLoop locks one after another.
var oursLoop = contestant{name: "leasewheel, one by one", open: func(addr string) (client, error) {
	c, err := openOurs(addr)
	return loop{leasewheel{c}}, err
}}

// redsyncLoop does that with redsync, which has nothing else.
var redsyncLoop = contestant{name: "redsync, one by one", open: func(addr string) (client, error) {
	c, err := redsyncPeer.open(addr)
	return loop{c}, err
}}

// loop locks several locks one after another.
type loop struct{ client }

func (l loop) lockAll(ctx context.Context, members []string) error {
	unlocks := make([]unlock, 0, len(members))
	for _, m := range members {
		unlock, err := l.try(ctx, m)
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

func (c leasewheel) try(ctx context.Context, key string) (unlock, error) {
	h, err := c.Mutex(key).TryLock(ctx)
	return h.Unlock, err
}

func (c leasewheel) wait(ctx context.Context, key string) (unlock, error) {
	h, err := c.Mutex(key).Lock(ctx)
	return h.Unlock, err
}

var redsyncPeer = contestant{name: "redsync", plain: true, open: func(addr string) (client, error) {
	return redsyncClient{redsync.New(goredis.NewPool(goredisClient(addr)))}, nil
}}

type redsyncClient struct{ *redsync.Redsync }

func (c redsyncClient) try(ctx context.Context, key string) (unlock, error) {
	m := c.NewMutex(key, redsync.WithExpiry(ttl))
	return unlockRedsync(m), m.TryLockContext(ctx)
}

func (c redsyncClient) wait(ctx context.Context, key string) (unlock, error) {
	m := c.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
	return unlockRedsync(m), m.LockContext(ctx)
}

func unlockRedsync(m *redsync.Mutex) unlock {
	return func(ctx context.Context) error {
		_, err := m.UnlockContext(ctx)
		return err
	}
}

var redislockPeer = contestant{name: "redislock", open: func(addr string) (client, error) {
	return redislockClient{redislock.New(goredisClient(addr))}, nil
}}

type redislockClient struct{ *redislock.Client }

func (c redislockClient) try(ctx context.Context, key string) (unlock, error) {
	l, err := c.Obtain(ctx, key, ttl, nil)
	return l.Release, err
}

func (c redislockClient) wait(ctx context.Context, key string) (unlock, error) {
	const interval = 100 * time.Millisecond // as its README has it
	l, err := c.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(interval)})
	return l.Release, err
}

var rueidisPeer = contestant{name: "rueidislock", open: func(addr string) (client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyValidity:    ttl,
		ExtendInterval: ttl / 3,
		KeyMajority:    1,
		TryNextAfter:   time.Second, // its 20 ms are too short for those who begin 64 at a time
		NoLoopTracking: true,
	})
	return rueidisClient{locker}, err
}}

type rueidisClient struct{ rueidislock.Locker }

func (c rueidisClient) try(_ context.Context, key string) (unlock, error) {
	_, cancel, err := c.TryWithContext(context.Background(), key) // not the caller's: the lock ends with it
	return unlockRueidis(cancel), err
}

func (c rueidisClient) wait(ctx context.Context, key string) (unlock, error) {
	_, cancel, err := c.WithContext(ctx, key)
	return unlockRueidis(cancel), err
}

func unlockRueidis(cancel context.CancelFunc) unlock {
	return func(context.Context) error {
		cancel()
		return nil
	}
}
