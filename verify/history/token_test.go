package history

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// tokens returns two processes with that lock.
func tokens(p *play, redis *server) (first, second *process, a, b *Token) {
	first, second = p.process("A"), p.process("B")
	a = &Token{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
	b = &Token{Redis: second.client(redis), Key: "lock", Value: "b1", TTL: ttl}
	return first, second, a, b
}

// A process stands still for longer than the TTL: two are inside. Its random value
// says which is the later one to nobody.
func TestTokenPause(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			first, second, a, b := tokens(p, p.server(""))
			p.got(a.TryLock)
			first.stops()
			p.after(ttl + time.Second)
			p.got(b.TryLock)
			p.enters(second)
			first.goesOn()
			p.enters(first)
			require.Equal(p, []string{"B", "A"}, p.inside)
		})
	})
	t.Run("ours", oursStandsStill)
}

// The work takes longer than the TTL, without any fault: nothing renews the lock.
func TestTokenLongWork(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			first, second, a, b := tokens(p, p.server(""))
			p.got(a.TryLock)
			p.enters(first)
			p.after(ttl + time.Second)
			p.got(b.TryLock)
			p.enters(second)
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			held := a.gets("lock")
			p.after(2*ttl + time.Second)
			b.isRefused("lock")
			a.has(held)
		})
	})
}

// The reply to SET gets lost: a second try meets the first, and nobody has the lock.
func TestTokenLostReply(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			first, _, a, b := tokens(p, p.server(""))
			first.nextRequest(losesReply)
			_, err := a.TryLock(p.Context())
			require.Error(p, err)
			p.refused(a.TryLock)
			p.after(ttl - time.Second)
			p.refused(b.TryLock)
		})
	})
	t.Run("ours", oursLosesTheReply)
}

// SET is executed after the process gave up and released what it might have: the
// lock is held for nobody.
func TestTokenLateRequest(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			first, _, a, b := tokens(p, p.server(""))
			first.nextRequest(isLate)
			_, err := a.TryLock(p.Context())
			require.Error(p, err)
			require.NoError(p, a.Unlock(p.Context()))
			first.deliver()
			p.after(ttl - time.Second)
			p.refused(b.TryLock)
		})
	})
	t.Run("ours", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			a.nextRequest(isLate)
			ctx, cancel := context.WithTimeout(p.Context(), time.Second)
			defer cancel()
			_, err := a.locks.Mutex("lock").Lock(ctx)
			require.ErrorIs(p, err, lock.ErrNotAcquired)
			p.after(time.Second)
			a.deliver()
			b.gets("lock")
			require.Less(p, time.Since(p.began), 3*time.Second)
		})
	})
}

// The master dies before its replica has the key: two are inside, and the first is
// never told. Ours makes two holders as well.
func TestTokenFailOver(t *testing.T) {
	const how = "DIES; the replica that takes over has not got the key"
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			first, second, a, b := tokens(p, redis)
			p.got(a.TryLock)
			p.enters(first)
			redis.loses(how)
			p.got(b.TryLock)
			p.enters(second)
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) {
		oursLosesTheLock(t, func(s *server) { s.loses(how) })
	})
}
