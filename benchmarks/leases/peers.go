// The clients of other libraries.

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var (
	redsyncPeer = candidate{
		name: "redsync",
		key:  lockName,
		open: func(t task) (client, error) {
			rs := redsync.New(goredis.NewPool(t.redis()))
			return &tickerClient{task: t, acquire: func(ctx context.Context, i int) (renewFunc, error) {
				m := rs.NewMutex(lockName(i), redsync.WithExpiry(t.TTL))
				return func(ctx context.Context) error {
					ok, err := m.ExtendContext(ctx)
					if err == nil && !ok {
						err = errors.New("not extended")
					}
					return err
				}, m.TryLockContext(ctx)
			}}, nil
		},
	}
	redislockPeer = candidate{
		name: "redislock",
		key:  lockName,
		open: func(t task) (client, error) {
			locker := redislock.New(t.redis())
			return &tickerClient{task: t, acquire: func(ctx context.Context, i int) (renewFunc, error) {
				l, err := locker.Obtain(ctx, lockName(i), t.TTL, nil)
				return func(ctx context.Context) error { return l.Refresh(ctx, t.TTL, nil) }, err
			}}, nil
		},
	}
	rueidisPeer = candidate{
		name: "rueidislock",
		key:  rueidisKey,
		open: func(t task) (client, error) { return openRueidis(t, true) },
	}
	rueidisDefaultPeer = candidate{
		name: "rueidislock-loop",
		key:  rueidisKey,
		open: func(t task) (client, error) { return openRueidis(t, false) },
	}
)

// renewFunc renews a lock once.
type renewFunc func(ctx context.Context) error

// tickerClient renews the locks of a client without a watchdog: each lock has a
// goroutine with a ticker.
type tickerClient struct {
	task
	acquire   func(ctx context.Context, i int) (renewFunc, error)
	lostLocks atomic.Int64
}

func (t *tickerClient) lock(ctx context.Context, i int) error {
	renew, err := t.acquire(ctx, i)
	if err != nil {
		return err
	}
	go t.keep(renew)
	return nil
}

// keep renews a lock until a renewal fails.
func (t *tickerClient) keep(renew renewFunc) {
	defer t.lostLocks.Add(1)
	ticker := time.NewTicker(t.period())
	defer ticker.Stop()
	for {
		<-ticker.C
		if renew(context.Background()) != nil {
			return
		}
	}
}

func (t *tickerClient) lost() int { return int(t.lostLocks.Load()) }

// rueidisClient holds the locks of rueidislock. Each lock is a context that ends
// when the lock is lost.
type rueidisClient struct {
	locker rueidislock.Locker
	ctxs   []context.Context
	cancel []context.CancelFunc // a user keeps them to release the locks
}

func openRueidis(t task, noLoopTracking bool) (client, error) {
	opts := rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: t.Addrs},
		KeyValidity:    t.TTL,
		ExtendInterval: t.period(),
		KeyMajority:    1,
		TryNextAfter:   time.Second, // the default of 20 ms is too short for 64 goroutines that start at once
		NoLoopTracking: noLoopTracking,
	}
	locker, err := rueidislock.NewLocker(opts)
	if err != nil {
		return nil, err
	}
	return &rueidisClient{locker, make([]context.Context, t.Leases), make([]context.CancelFunc, t.Leases)}, nil
}

func rueidisKey(i int) string { return "rueidislock:0:" + lockName(i) }

func (r *rueidisClient) lock(_ context.Context, i int) (err error) {
	// The lock ends with its context, so it needs one that does not end.
	r.ctxs[i], r.cancel[i], err = r.locker.TryWithContext(context.Background(), lockName(i))
	return err
}

func (r *rueidisClient) lost() (lost int) {
	for _, ctx := range r.ctxs {
		if ctx != nil && ctx.Err() != nil {
			lost++
		}
	}
	return lost
}
