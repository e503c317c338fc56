package legacy

import (
	"context"
	"log/slog"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/wheel"
)

// older is an older lock as a contender.
type older struct {
	actor *actor
	try   func(context.Context) (bool, error)
	free  func(context.Context) error
	wait  func(context.Context) error // nil: it tries every second
	tick  func(context.Context)       // nil: it has no watchdog

	stop  chan struct{}
	ended chan struct{}
}

func (o *older) lock(ctx context.Context) (uint64, bool) {
	for ctx.Err() == nil && !o.actor.isDead() {
		got, err := o.ask(ctx)
		if got && err == nil {
			o.watch(ctx)
			return 0, true
		}
		o.actor.sleep(ctx, time.Second)
	}
	return 0, false
}

func (o *older) ask(ctx context.Context) (bool, error) {
	if o.wait != nil {
		err := o.wait(ctx)
		return err == nil, err
	}
	return o.try(ctx)
}

// watch starts the watchdog.
func (o *older) watch(ctx context.Context) {
	o.stop, o.ended = make(chan struct{}), make(chan struct{})
	if o.tick == nil {
		close(o.ended)
		return
	}
	go func() {
		defer close(o.ended)
		for {
			select {
			case <-time.After(ttl / 3):
			case <-o.stop:
				return
			case <-ctx.Done():
				return
			}
			o.actor.await()
			o.tick(ctx)
		}
	}()
}

func (o *older) believes() bool        { return true }
func (o *older) asks() bool            { return true }
func (o *older) gone() <-chan struct{} { return nil }

func (o *older) unlock(ctx context.Context) {
	close(o.stop)
	<-o.ended
	_ = o.free(ctx)
}

func openSetNX(a *actor) contender {
	l := &SetNX{Redis: a.client(a.player.redis[0]), Key: "lock", Value: "of " + a.name, TTL: ttl}
	return &older{actor: a, try: l.TryLock, free: l.Unlock}
}

func openSetPX(a *actor) contender {
	l := &SetPX{Redis: a.client(a.player.redis[0]), Key: "lock", TTL: ttl}
	return &older{actor: a, try: l.TryLock, free: l.Unlock}
}

func openToken(a *actor) contender {
	l := &Token{Redis: a.client(a.player.redis[0]), Key: "lock", Value: "of " + a.name, TTL: ttl}
	return &older{actor: a, try: l.TryLock, free: l.Unlock}
}

func openRedlock(a *actor) contender {
	l := &Redlock{Key: "lock", Value: "of " + a.name, TTL: ttl, Now: time.Now}
	for _, s := range a.player.redis {
		l.Servers = append(l.Servers, a.client(s))
	}
	try := func(ctx context.Context) (bool, error) { return l.TryLock(ctx) > 0, nil }
	return &older{actor: a, try: try, free: l.Unlock}
}

func openRedisson(a *actor) contender {
	l := &Redisson{Redis: a.client(a.player.redis[0]), Key: "lock", Owner: a.name + ":1", Lease: ttl}
	return &older{actor: a, wait: l.Lock, tick: l.Tick, free: l.Unlock}
}

// current is the lock of this module as a contender.
type current struct {
	actor *actor
	locks *lock.Client
	held  *lock.Held
}

func openOurs(a *actor) contender {
	const tick = 10 * time.Millisecond
	engine, err := wheel.New(&wheel.Options{Tick: tick})
	require.NoError(a, err)
	a.Cleanup(func() { engine.Close() })
	store, err := redisstore.New(a.client(a.player.redis[0]), nil)
	require.NoError(a, err)
	var locks *lock.Client
	simrand.WithPhase(0.5, func() {
		locks, err = lock.New(store, &lock.Options{
			Terms: lock.Terms{TTL: ttl}, Scheduler: a.pauser.TickingEngine(engine, tick), Logger: slog.New(slog.DiscardHandler),
		})
	})
	require.NoError(a, err)
	a.Cleanup(func() {
		a.kill()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = locks.Close(ctx) // a crashed process releases nothing
	})
	return &current{actor: a, locks: locks}
}

func (c *current) lock(ctx context.Context) (uint64, bool) {
	for ctx.Err() == nil && !c.actor.isDead() {
		held, err := c.locks.Mutex("lock").Lock(ctx)
		if err == nil {
			c.held = held
			return held.Token(), true
		}
		c.actor.sleep(ctx, time.Second)
	}
	return 0, false
}

func (c *current) believes() bool             { return c.held.Valid() }
func (c *current) asks() bool                 { return c.held.Valid() }
func (c *current) gone() <-chan struct{}      { return c.held.Done() }
func (c *current) unlock(ctx context.Context) { _ = c.held.Unlock(ctx) }
