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
	redsyncPeer = contestant{
		name: "redsync", how: "it has no watchdog: a goroutine and a ticker for each lock call Extend",
		flatOut: poolSize,
		key:     lockName,
		open: func(o order) (client, error) {
			rs := redsync.New(goredis.NewPool(o.redis()))
			return &ticking{order: o, obtain: func(ctx context.Context, i int) (renew, error) {
				m := rs.NewMutex(lockName(i), redsync.WithExpiry(o.TTL))
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
	redislockPeer = contestant{
		name: "redislock", how: "it has no watchdog: a goroutine and a ticker for each lock call Refresh",
		flatOut: poolSize,
		key:     lockName,
		open: func(o order) (client, error) {
			locker := redislock.New(o.redis())
			return &ticking{order: o, obtain: func(ctx context.Context, i int) (renew, error) {
				l, err := locker.Obtain(ctx, lockName(i), o.TTL, nil)
				return func(ctx context.Context) error { return l.Refresh(ctx, o.TTL, nil) }, err
			}}, nil
		},
	}
	rueidisPeer = contestant{
		name: "rueidislock", how: "its own loop, one key per lock (KeyMajority 1), with NoLoopTracking",
		flatOut: 1000,
		key:     rueidisKey,
		open:    func(o order) (client, error) { return openRueidis(o, true) },
	}
	rueidisDefaultPeer = contestant{
		name: "rueidislock-loop", how: "the same without NoLoopTracking, as it is by default",
		flatOut: 1000,
		key:     rueidisKey,
		open:    func(o order) (client, error) { return openRueidis(o, false) },
	}
)

// renew is one renewal of one lock.
type renew func(ctx context.Context) error

// ticking keeps the locks of a client that does not keep them itself.
type ticking struct {
	order
	obtain func(ctx context.Context, i int) (renew, error)
	lost   atomic.Int64
}

func (t *ticking) lock(ctx context.Context, i int) error {
	f, err := t.obtain(ctx, i)
	if err != nil {
		return err
	}
	go t.keep(f)
	return nil
}

func (t *ticking) allHeld() {}

// keep renews a lock until that fails.
func (t *ticking) keep(f renew) {
	defer t.lost.Add(1)
	ticker := time.NewTicker(t.period())
	defer ticker.Stop()
	for {
		if !t.FlatOut {
			<-ticker.C
		}
		if f(context.Background()) != nil {
			return
		}
	}
}

func (t *ticking) tell() tally { return tally{lost: int(t.lost.Load())} }

// rueidisLocks are the locks of rueidislock: a context each, which ends when the
// lock is lost.
type rueidisLocks struct {
	locker rueidislock.Locker
	ctxs   []context.Context
	cancel []context.CancelFunc // kept, as every user must
}

func openRueidis(o order, noLoop bool) (client, error) {
	opts := rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: o.Addrs},
		KeyValidity:    o.TTL,
		ExtendInterval: o.period(),
		KeyMajority:    1,
		TryNextAfter:   time.Second, // its 20 ms are too short for those who begin 64 at a time
		NoLoopTracking: noLoop,
	}
	if o.FlatOut {
		opts.ExtendInterval = time.Microsecond
	}
	locker, err := rueidislock.NewLocker(opts)
	if err != nil {
		return nil, err
	}
	return &rueidisLocks{locker, make([]context.Context, o.Leases), make([]context.CancelFunc, o.Leases)}, nil
}

func rueidisKey(i int) string { return "rueidislock:0:" + lockName(i) }

func (r *rueidisLocks) lock(_ context.Context, i int) (err error) {
	// Not the ctx of the caller: the lock ends with it.
	r.ctxs[i], r.cancel[i], err = r.locker.TryWithContext(context.Background(), lockName(i))
	return err
}

func (r *rueidisLocks) allHeld() {}

func (r *rueidisLocks) tell() tally {
	var lost int
	for _, ctx := range r.ctxs {
		if ctx != nil && ctx.Err() != nil {
			lost++
		}
	}
	return tally{lost: lost}
}
