package legacy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// tokens starts two processes with a Token lock each.
func tokens(p *scenario, redis *server) (first, second *process, a, b *Token) {
	first, second = p.process("A"), p.process("B")
	a = &Token{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
	b = &Token{Redis: second.client(redis), Key: "lock", Value: "b1", TTL: ttl}
	return first, second, a, b
}

// TestTokenPause: a process pauses for longer than the TTL. Two processes work, and their
// random values do not tell which one is late.
func TestTokenPause(t *testing.T) {
	playKnown(t, "token", twoHolders, wrongWrite)
	runScenario(t, "ours", oursPaused)
}

// TestTokenLongWork: the work takes longer than the TTL, and nothing renews the lock.
func TestTokenLongWork(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		first, second, a, b := tokens(p, p.server(""))
		p.acquires(a.TryLock)
		p.works(first)
		p.advance(ttl + time.Second)
		p.acquires(b.TryLock)
		p.works(second)
		require.Equal(p, []string{"A", "B"}, p.working)
	})
	runScenario(t, "ours", func(p *scenario) {
		a, b := p.twoUsers()
		held := a.lock("lock")
		p.advance(2*ttl + time.Second)
		b.tryLockRefused("lock")
		a.assertValid(held)
	})
}

// TestTokenLostReply: the reply to SET is lost. The second try finds the first, and nobody
// has the lock.
func TestTokenLostReply(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		first, _, a, b := tokens(p, p.server(""))
		first.setNextFate(replyLost)
		_, err := a.TryLock(p.Context())
		require.Error(p, err)
		p.isRefused(a.TryLock)
		p.advance(ttl - time.Second)
		p.isRefused(b.TryLock)
	})
	runScenario(t, "ours", oursLosesReply)
}

// TestTokenLateRequest: the server executes SET after the process gave up and released.
// Nobody holds the lock, but it is taken.
func TestTokenLateRequest(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		first, _, a, b := tokens(p, p.server(""))
		first.setNextFate(delayed)
		_, err := a.TryLock(p.Context())
		require.Error(p, err)
		require.NoError(p, a.Unlock(p.Context()))
		first.deliverDelayed()
		p.advance(ttl - time.Second)
		p.isRefused(b.TryLock)
	})
	// After Options.Timeout the client asks again on another connection, with the same owner.
	// After the release, the server refuses the late request of that owner.
	runScenario(t, "ours", func(p *scenario) {
		a, b := p.twoUsers()
		a.setNextFate(delayed)
		held := a.lock("lock")
		a.unlock(held)
		a.deliverDelayed()
		b.lock("lock")
		require.Less(p, time.Since(p.began), breakAfter+time.Second)
	})
	// No request delivered before the caller gives up. The client releases what the late
	// request takes.
	runScenario(t, "ours, cut off", func(p *scenario) {
		a, b := p.twoUsers()
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		a.setNextFate(delayed)
		locking := a.start(func() {
			_, err := a.locks.Mutex("lock").Lock(ctx)
			require.ErrorIs(p, err, lock.ErrUnavailable)
		})
		a.setPartitioned(true)
		locking.wait()
		a.setPartitioned(false)
		a.deliverDelayed()
		b.lock("lock")
		require.Less(p, time.Since(p.began), 5*time.Second)
	})
}

// TestTokenFailOver: the master crashes before its replica has the key. Two processes
// work, and the first one is never told. The lock of this module has two holders as well.
func TestTokenFailOver(t *testing.T) {
	const how = "DIES; the replica that takes over has not got the key"
	runScenario(t, "then", func(p *scenario) {
		redis := p.server("")
		first, second, a, b := tokens(p, redis)
		p.acquires(a.TryLock)
		p.works(first)
		redis.loseData(how)
		p.acquires(b.TryLock)
		p.works(second)
		require.Equal(p, []string{"A", "B"}, p.working)
	})
	runScenario(t, "ours", func(p *scenario) { oursLosesData(p, func(s *server) { s.loseData(how) }) })
}
