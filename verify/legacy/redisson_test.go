package legacy

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func redisson(p *scenario, name string, s *server) (*process, *Redisson) {
	proc := p.process(name)
	return proc, &Redisson{Redis: proc.client(s), Key: "lock", Owner: name + ":1", Lease: ttl}
}

// try is TryLock without the remaining time.
func (l *Redisson) try(ctx context.Context) (bool, error) {
	got, _, err := l.TryLock(ctx)
	return got, err
}

// TestRedissonOneError: one renewal fails, and the watchdog ends silently.
func TestRedissonOneError(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis := p.server("")
		first, a := redisson(p, "A", redis)
		second, b := redisson(p, "B", redis)
		a.OneError = true
		p.acquires(a.try)
		p.works(first)
		p.advance(ttl / 3)
		first.setNextFate(lost)
		a.Tick(p.Context())
		p.advance(ttl / 3)
		a.Tick(p.Context()) // it sends nothing
		p.advance(ttl / 3)
		p.acquires(b.try)
		p.works(second)
		require.Equal(p, []string{"A", "B"}, p.working)
	})
	runScenario(t, "ours", func(p *scenario) {
		a, b := p.twoUsers()
		held := a.lock("lock")
		a.setNextFate(lost) // the first renewal
		p.advance(ttl + time.Second)
		b.tryLockRefused("lock")
		a.assertValid(held)
	})
}

// TestRedissonCutOff: the holder is partitioned. Another process gets the lock, and the
// holder is never told.
func TestRedissonCutOff(t *testing.T) {
	playKnown(t, "redisson", twoHolders, wrongWrite)
	runScenario(t, "ours", func(p *scenario) { // told before anyone else can get the lock
		a, b := p.twoUsers()
		held := a.lock("lock")
		a.setPartitioned(true)
		p.advance(ttl*99/100 - 300*time.Millisecond) // the deadline, which leaves a margin of 1 %
		select {
		case <-held.Done():
			a.say("is told: %v", held.Err())
		default:
			require.Fail(p, "not told")
		}
		a.assertLost(held)
		b.tryLockRefused("lock")
		p.advance(time.Second)
		b.lock("lock")
	})
}

// TestRedissonCountsTwice: the reply to an acquire is lost, and the client library
// repeats the request. The count is two, one Unlock leaves one, and the lock stays held.
func TestRedissonCountsTwice(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis := p.server("")
		first, a := redisson(p, "A", redis)
		_, b := redisson(p, "B", redis)
		a.Redis = first.retryingClient(redis, 3)
		first.setNextFate(replyLost)
		p.acquires(a.try)
		require.NoError(p, a.Unlock(p.Context()))
		for range 9 {
			p.advance(ttl / 3)
			a.Tick(p.Context())
		}
		p.isRefused(b.try)
	})
	runScenario(t, "ours", oursLosesReply)
}

// TestRedissonInnerLease: the owner locks again for 5 s. The outer lock expires with the
// inner one, before the watchdog runs again.
func TestRedissonInnerLease(t *testing.T) {
	const inner = 5 * time.Second
	runScenario(t, "then", func(p *scenario) {
		redis := p.server("")
		first, a := redisson(p, "A", redis)
		second, b := redisson(p, "B", redis)
		p.acquires(a.try)
		p.works(first)
		p.acquires(func(ctx context.Context) (bool, error) { return a.TryLockFor(ctx, inner) })
		p.advance(inner + time.Second)
		p.acquires(b.try)
		p.works(second)
		require.Equal(p, []string{"A", "B"}, p.working)
	})
	runScenario(t, "ours", func(p *scenario) {
		a, b := p.twoUsers()
		held := a.lock("lock")
		ctx, stop := held.Context(p.Context())
		defer stop()
		short := a.locks.With(lock.Terms{TTL: inner, Fixed: true})
		again, err := short.Reentrant("lock").Lock(ctx)
		require.NoError(p, err)
		a.say("enters the lock again, without a request, token %d", again.Token())
		p.advance(inner + time.Second)
		b.tryLockRefused("lock")
		a.assertValid(held)
		a.assertValid(again)
	})
}

// TestRedissonLostMessage: the message of an Unlock is lost. The lock is free until the
// waiter expects it to expire.
func TestRedissonLostMessage(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis := p.server("")
		_, a := redisson(p, "A", redis)
		second, b := redisson(p, "B", redis)
		p.acquires(a.try)
		locking := second.start(func() { require.NoError(p, b.Lock(p.Context())) })
		second.dropMessages()
		p.advance(time.Second)
		require.NoError(p, a.Unlock(p.Context()))
		released := time.Now()
		locking.wait()
		require.Greater(p, time.Since(released), 28*time.Second)
	})
	runScenario(t, "ours", func(p *scenario) { // a waiter polls three times in the time of a place
		a, b := p.twoUsers()
		held := a.lock("lock")
		locking := b.start(func() { b.lock("lock") })
		b.dropMessages()
		p.advance(time.Second)
		a.unlock(held)
		released := time.Now()
		locking.wait()
		require.Less(p, time.Since(released), 3500*time.Millisecond)
	})
}

// TestRedissonBarging: a newcomer asks between an Unlock and the next try of the waiter.
func TestRedissonBarging(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis := p.server("")
		_, a := redisson(p, "A", redis)
		second, b := redisson(p, "B", redis)
		_, c := redisson(p, "C", redis)
		p.acquires(a.try)
		ctx, giveUp := context.WithCancel(p.Context())
		locking := second.start(func() { require.Error(p, b.Lock(ctx)) })
		second.pauseBefore(1)
		require.NoError(p, a.Unlock(p.Context()))
		synctest.Wait()
		p.acquires(c.try)
		second.resume()
		giveUp()
		locking.wait()
	})
	runScenario(t, "ours", func(p *scenario) {
		a, b, c := p.threeUsers()
		held := a.lock("lock")
		locking := b.start(func() { b.lock("lock") })
		b.pauseBefore(1)
		a.unlock(held)
		c.tryLockRefused("lock")
		b.resume()
		locking.wait()
	})
}

// waiters is the number of waiting processes.
const waiters = 8

// TestHerd: an Unlock wakes all waiters. Each of them asks, and one gets the lock.
func TestHerd(t *testing.T) {
	runScenario(t, "polling", func(p *scenario) {
		redis := p.server("")
		_, _, a, _ := tokens(p, redis)
		p.acquires(a.TryLock)
		before := redis.requests()
		var polls []*call
		for i := range waiters {
			proc := p.process(fmt.Sprint("W", i))
			l := &Token{Redis: proc.client(redis), Key: "lock", Value: proc.name, TTL: ttl}
			polls = append(polls, proc.start(func() {
				for range 10 {
					time.Sleep(100 * time.Millisecond)
					p.isRefused(l.TryLock)
				}
			}))
		}
		for _, poll := range polls {
			poll.wait()
		}
		p.say("all", "%d waiters sent %d requests in a second of waiting, 100 ms apart", waiters, redis.requests()-before)
		require.Equal(p, 10*waiters, redis.requests()-before)
	})
	runScenario(t, "redisson", func(p *scenario) {
		redis := p.server("")
		_, a := redisson(p, "A", redis)
		p.acquires(a.try)
		ctx, cancel := context.WithCancel(p.Context())
		var calls []*call
		for i := range waiters {
			proc, l := redisson(p, fmt.Sprint("W", i), redis)
			calls = append(calls, proc.start(func() { _ = l.Lock(ctx) }))
		}
		before := redis.requests()
		require.NoError(p, a.Unlock(p.Context()))
		synctest.Wait()
		p.say("all", "one hand-over among %d waiters took %d requests", waiters, redis.requests()-before)
		require.GreaterOrEqual(p, redis.requests()-before, 1+waiters)
		cancel()
		for _, c := range calls {
			c.wait()
		}
	})
	runScenario(t, "ours", func(p *scenario) {
		redis := p.server("")
		a := p.user("A", redis)
		held := a.lock("lock")
		ctx, cancel := context.WithCancel(p.Context())
		var calls []*call
		for i := range waiters {
			u := p.user(fmt.Sprint("W", i), redis)
			calls = append(calls, u.start(func() { _, _ = u.locks.Mutex("lock").Lock(ctx) }))
		}
		before := redis.requests()
		a.unlock(held)
		synctest.Wait()
		p.say("all", "one hand-over among %d waiters took %d requests", waiters, redis.requests()-before)
		require.Equal(p, 1, redis.requests()-before, "the release; with the first request of each waiter that makes two")
		cancel()
		for _, c := range calls {
			c.wait()
		}
	})
}
