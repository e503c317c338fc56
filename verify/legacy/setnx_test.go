package legacy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const year = 365 * 24 * time.Hour

// TestSetNXCrash: a process crashes between SETNX and EXPIRE. The lock never expires.
func TestSetNXCrash(t *testing.T) {
	crashBetween := func(p *scenario) (b *SetNX) {
		redis, first, second := p.server(""), p.process("A"), p.process("B")
		a := &SetNX{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
		first.pauseBefore(2)
		try := first.start(func() { _, _ = a.TryLock(p.Context()) })
		first.crash()
		try.wait()
		return &SetNX{Redis: second.client(redis), Key: "lock", Value: "b1", TTL: ttl}
	}
	playKnown(t, "setnx", stuckLock)
	runScenario(t, "with repair", func(p *scenario) {
		b := crashBetween(p)
		p.isRefused(b.TryLock)
		require.NoError(p, b.Repair(p.Context()))
		p.advance(ttl)
		p.acquires(b.TryLock)
	})
	runScenario(t, "ours", func(p *scenario) {
		a, b := p.twoUsers()
		a.setNextFate(replyLost)
		a.pauseBefore(2)
		try := a.start(func() { _, _ = a.locks.Mutex("lock").Lock(p.Context()) })
		a.crash()
		b.tryLockRefused("lock")
		b.lock("lock")
		require.LessOrEqual(p, time.Since(p.began), ttl+time.Second)
		try.wait()
	})
}

// TestSetNXLostReply: the reply to SETNX is lost. The process blocks itself forever.
func TestSetNXLostReply(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis, first := p.server(""), p.process("A")
		a := &SetNX{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
		first.setNextFate(replyLost)
		_, err := a.TryLock(p.Context())
		require.Error(p, err)
		p.advance(year)
		p.isRefused(a.TryLock) // although nobody else wants the lock
	})
	runScenario(t, "ours", oursLosesReply)
}

// TestSetNXPause: a process pauses for longer than the TTL. Two processes work, and
// nothing tells the first one.
func TestSetNXPause(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis, first, second := p.server(""), p.process("A"), p.process("B")
		a := &SetNX{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
		b := &SetNX{Redis: second.client(redis), Key: "lock", Value: "b1", TTL: ttl}
		p.pauseHolder(first, a.TryLock, second, b.TryLock)
		p.works(first)
		require.NoError(p, a.Unlock(p.Context()))
		p.isRefused((&SetNX{Redis: first.client(redis), Key: "lock", Value: "a2", TTL: ttl}).TryLock) // B still has it
		require.Equal(p, []string{"B", "A"}, p.working)
	})
	runScenario(t, "ours", oursPaused)
}
