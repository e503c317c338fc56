package legacy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSetNXLostReply: the reply to SETNX is lost. The process blocks itself forever.
func TestSetNXLostReply(t *testing.T) {
	runScenario(t, func(p *scenario) {
		redis, first := p.server(""), p.process("A")
		a := &SetNX{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
		first.setNextFate(replyLost)
		_, err := a.TryLock(p.Context())
		require.Error(p, err)
		p.advance(365 * 24 * time.Hour)
		p.isRefused(a.TryLock) // although nobody else wants the lock
	})
}

// TestGetSetRelease: a process reads its clock and pauses before its DEL. It deletes the
// lock of the next holder.
func TestGetSetRelease(t *testing.T) {
	runScenario(t, func(p *scenario) {
		redis, first, second, third := p.server(""), p.process("A"), p.process("B"), p.process("C")
		a, b, c := getSet(first, redis), getSet(second, redis), getSet(third, redis)
		p.acquires(a.TryLock)
		p.advance(ttl - time.Second)
		first.pauseBefore(1)
		unlock := first.start(func() { require.NoError(p, a.Unlock(p.Context())) })
		p.advance(2 * time.Second)
		p.acquires(b.TryLock)
		p.works(second)
		first.resume()
		unlock.wait()
		p.acquires(c.TryLock)
		p.works(third)
		require.Equal(p, []string{"B", "C"}, p.working, "neither of which did anything wrong")
	})
}

func getSet(proc *process, s *server) *GetSet {
	return &GetSet{Redis: proc.client(s), Key: "lock", TTL: ttl, Now: proc.now}
}

// TestGetSetLoser: two processes find the lock expired. The loser has written its own
// time, so the lock lasts as long as the loser says.
func TestGetSetLoser(t *testing.T) {
	runScenario(t, func(p *scenario) {
		redis, first, second, third := p.server(""), p.process("A"), p.process("B"), p.process("C")
		third.ahead = 20 * time.Second
		a, b, c := getSet(first, redis), getSet(second, redis), getSet(third, redis)
		p.acquires(a.TryLock)
		first.crash()
		p.advance(ttl + time.Second)
		third.pauseBefore(3)
		try := third.start(func() { p.isRefused(c.TryLock) })
		p.acquires(b.TryLock)
		third.resume()
		try.wait()
		second.crash()
		p.advance(ttl + time.Second)
		p.isRefused(getSet(p.process("D"), redis).TryLock) // the expiry that B wrote has passed
	})
}

// tokens starts two processes with a Token lock each.
func tokens(p *scenario) (first *process, a, b *Token) {
	redis, first := p.server(""), p.process("A")
	a = &Token{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
	b = &Token{Redis: p.process("B").client(redis), Key: "lock", Value: "b1", TTL: ttl}
	return first, a, b
}

// TestTokenLostReply: the reply to SET is lost. The second try finds the first, and nobody
// has the lock.
func TestTokenLostReply(t *testing.T) {
	runScenario(t, func(p *scenario) {
		first, a, b := tokens(p)
		first.setNextFate(replyLost)
		_, err := a.TryLock(p.Context())
		require.Error(p, err)
		p.isRefused(a.TryLock)
		p.advance(ttl - time.Second)
		p.isRefused(b.TryLock)
	})
}

// TestTokenLateRequest: the server executes SET after the process gave up and released.
// Nobody holds the lock, but it is taken.
func TestTokenLateRequest(t *testing.T) {
	runScenario(t, func(p *scenario) {
		first, a, b := tokens(p)
		first.setNextFate(delayed)
		_, err := a.TryLock(p.Context())
		require.Error(p, err)
		require.NoError(p, a.Unlock(p.Context()))
		first.deliverDelayed()
		p.advance(ttl - time.Second)
		p.isRefused(b.TryLock)
	})
}

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
	runScenario(t, func(p *scenario) {
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
}

// TestRedissonCountsTwice: the reply to an acquire is lost, and the client library
// repeats the request. The count is two, one Unlock leaves one, and the lock stays held.
func TestRedissonCountsTwice(t *testing.T) {
	runScenario(t, func(p *scenario) {
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
}

// TestRedissonInnerLease: the owner locks again for 5 s. The outer lock expires with the
// inner one, before the watchdog runs again.
func TestRedissonInnerLease(t *testing.T) {
	const inner = 5 * time.Second
	runScenario(t, func(p *scenario) {
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
}

// TestRedissonLostMessage: the message of an Unlock is lost. The lock is free until the
// waiter expects it to expire.
func TestRedissonLostMessage(t *testing.T) {
	runScenario(t, func(p *scenario) {
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
}
