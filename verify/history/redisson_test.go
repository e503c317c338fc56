package history

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func redisson(p *play, name string, s *server) (*process, *Redisson) {
	proc := p.process(name)
	return proc, &Redisson{Redis: proc.client(s), Key: "lock", Owner: name + ":1", Lease: ttl}
}

// try is TryLock without what it says of the lock that is there.
func (l *Redisson) try(ctx context.Context) (bool, error) {
	got, _, err := l.TryLock(ctx)
	return got, err
}

// One renewal fails, and the watchdog ends, silently.
func TestRedissonOneError(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			first, a := redisson(p, "A", redis)
			second, b := redisson(p, "B", redis)
			a.OneError = true
			p.got(a.try)
			p.enters(first)
			p.after(ttl / 3)
			first.nextRequest(isLost)
			a.Tick(p.Context())
			p.after(ttl / 3)
			a.Tick(p.Context()) // sends nothing
			p.after(ttl / 3)
			p.got(b.try)
			p.enters(second)
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			held := a.gets("lock")
			a.nextRequest(isLost) // the first renewal
			p.after(ttl + time.Second)
			b.isRefused("lock")
			a.has(held)
		})
	})
}

// The holder is cut off: another gets the lock, and the holder is never told.
func TestRedissonCutOff(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			first, a := redisson(p, "A", redis)
			second, b := redisson(p, "B", redis)
			p.got(a.try)
			p.enters(first)
			first.cutOff(true)
			for range 3 {
				p.after(ttl / 3)
				a.Tick(p.Context())
			}
			p.got(b.try)
			p.enters(second)
			first.cutOff(false)
			a.Tick(p.Context()) // learns that it has no lock, and drops it
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) { // told before anybody else can get it
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			held := a.gets("lock")
			a.cutOff(true)
			p.after(ttl*99/100 - 300*time.Millisecond) // the deadline: a margin of 1 % is kept too
			select {
			case <-held.Done():
				a.say("is told: %v", held.Err())
			default:
				require.Fail(p, "not told")
			}
			a.knowsTheLoss(held)
			b.isRefused("lock")
			p.after(time.Second)
			b.gets("lock")
		})
	})
}

// The reply to an acquire gets lost and the client library sends it again: the lock
// counts two, is unlocked once, and stays held for ever.
func TestRedissonCountsTwice(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			first, a := redisson(p, "A", redis)
			_, b := redisson(p, "B", redis)
			a.Redis = first.clientThatRetries(redis, 3)
			first.nextRequest(losesReply)
			p.got(a.try)
			require.NoError(p, a.Unlock(p.Context()))
			for range 9 {
				p.after(ttl / 3)
				a.Tick(p.Context())
			}
			p.refused(b.try)
		})
	})
	t.Run("ours", oursLosesTheReply)
}

// Inside, the lock is locked again, for 5 s: the lock outside ends with it, before
// the watchdog looks at it again.
func TestRedissonInnerLease(t *testing.T) {
	const inner = 5 * time.Second
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			first, a := redisson(p, "A", redis)
			second, b := redisson(p, "B", redis)
			p.got(a.try)
			p.enters(first)
			p.got(func(ctx context.Context) (bool, error) { return a.TryLockFor(ctx, inner) })
			p.after(inner + time.Second)
			p.got(b.try)
			p.enters(second)
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			held := a.gets("lock")
			ctx, stop := held.Context(p.Context())
			defer stop()
			short := a.locks.With(lock.Terms{TTL: inner, Fixed: true})
			again, err := short.Reentrant("lock").Lock(ctx)
			require.NoError(p, err)
			a.say("enters the lock again, without a request, token %d", again.Token())
			p.after(inner + time.Second)
			b.isRefused("lock")
			a.has(held)
			a.has(again)
		})
	})
}

// The message of an Unlock gets lost: the lock lies free until the waiter believes
// that it must have ended.
func TestRedissonLostMessage(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			_, a := redisson(p, "A", redis)
			second, b := redisson(p, "B", redis)
			p.got(a.try)
			lock := second.begins(func() { require.NoError(p, b.Lock(p.Context())) })
			second.hearsNothing()
			p.after(time.Second)
			require.NoError(p, a.Unlock(p.Context()))
			released := time.Now()
			lock.ends()
			require.Greater(p, time.Since(released), 28*time.Second)
		})
	})
	t.Run("ours", func(t *testing.T) { // who waits asks three times in the time of a place
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			held := a.gets("lock")
			lock := b.begins(func() { b.gets("lock") })
			b.hearsNothing()
			p.after(time.Second)
			a.givesBack(held)
			released := time.Now()
			lock.ends()
			require.Less(p, time.Since(released), 3500*time.Millisecond)
		})
	})
}

// A newcomer asks between an Unlock and the try of the one who waits.
func TestRedissonBarging(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			_, a := redisson(p, "A", redis)
			second, b := redisson(p, "B", redis)
			_, c := redisson(p, "C", redis)
			p.got(a.try)
			ctx, giveUp := context.WithCancel(p.Context())
			lock := second.begins(func() { require.Error(p, b.Lock(ctx)) })
			second.stopsBefore(1)
			require.NoError(p, a.Unlock(p.Context()))
			synctest.Wait()
			p.got(c.try)
			second.goesOn()
			giveUp()
			lock.ends()
		})
	})
	t.Run("ours", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			a, b, c := p.ours("A", redis), p.ours("B", redis), p.ours("C", redis)
			held := a.gets("lock")
			lock := b.begins(func() { b.gets("lock") })
			b.stopsBefore(1)
			a.givesBack(held)
			c.isRefused("lock")
			b.goesOn()
			lock.ends()
		})
	})
}

// waiters is how many processes wait for one lock.
const waiters = 8

// An Unlock wakes all who wait: each asks, one gets the lock.
func TestHerd(t *testing.T) {
	t.Run("polling", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			_, _, a, _ := tokens(p, redis)
			p.got(a.TryLock)
			before := redis.asked()
			var polls []*call
			for i := range waiters {
				proc := p.process(fmt.Sprint("W", i))
				l := &Token{Redis: proc.client(redis), Key: "lock", Value: proc.name, TTL: ttl}
				polls = append(polls, proc.begins(func() {
					for range 10 {
						time.Sleep(100 * time.Millisecond)
						p.refused(l.TryLock)
					}
				}))
			}
			for _, poll := range polls {
				poll.ends()
			}
			p.say("all", "%d waiters sent %d requests in a second of waiting, 100 ms apart", waiters, redis.asked()-before)
			require.Equal(p, 10*waiters, redis.asked()-before)
		})
	})
	t.Run("redisson", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			_, a := redisson(p, "A", redis)
			p.got(a.try)
			ctx, cancel := context.WithCancel(p.Context())
			var calls []*call
			for i := range waiters {
				proc, l := redisson(p, fmt.Sprint("W", i), redis)
				calls = append(calls, proc.begins(func() { _ = l.Lock(ctx) }))
			}
			before := redis.asked()
			require.NoError(p, a.Unlock(p.Context()))
			synctest.Wait()
			p.say("all", "one hand-over among %d waiters took %d requests", waiters, redis.asked()-before)
			require.GreaterOrEqual(p, redis.asked()-before, 1+waiters)
			cancel()
			for _, c := range calls {
				c.ends()
			}
		})
	})
	t.Run("ours", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			a := p.ours("A", redis)
			held := a.gets("lock")
			ctx, cancel := context.WithCancel(p.Context())
			var calls []*call
			for i := range waiters {
				u := p.ours(fmt.Sprint("W", i), redis)
				calls = append(calls, u.begins(func() { _, _ = u.locks.Mutex("lock").Lock(ctx) }))
			}
			before := redis.asked()
			a.givesBack(held)
			synctest.Wait()
			p.say("all", "one hand-over among %d waiters took %d requests", waiters, redis.asked()-before)
			require.Equal(p, 1, redis.asked()-before, "the release; with the first request of each waiter that makes two")
			cancel()
			for _, c := range calls {
				c.ends()
			}
		})
	})
}
