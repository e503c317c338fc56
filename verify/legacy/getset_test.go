package legacy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGetSetClock: a process whose clock is ahead takes over a held lock.
func TestGetSetClock(t *testing.T) {
	playKnown(t, "getset", twoHolders, wrongWrite)
	runScenario(t, "ours", func(p *scenario) { // the clocks of waiters do not matter
		a, b := p.twoUsers()
		held := a.lock("lock")
		p.stepWallClock(ttl + time.Second)
		b.tryLockRefused("lock")
		a.assertLost(held) // early, which is safe: the machine may have been suspended
	})
}

// TestGetSetRelease: a process reads its clock and pauses before its DEL. It deletes the
// lock of the next holder.
func TestGetSetRelease(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis, first, second, third := p.server(""), p.process("A"), p.process("B"), p.process("C")
		a := &GetSet{Redis: first.client(redis), Key: "lock", TTL: ttl, Now: first.now}
		b := &GetSet{Redis: second.client(redis), Key: "lock", TTL: ttl, Now: second.now}
		c := &GetSet{Redis: third.client(redis), Key: "lock", TTL: ttl, Now: third.now}
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
	runScenario(t, "ours", oursPaused)
}

// TestGetSetLoser: two processes find the lock expired. The loser has written its own
// time, so the lock lasts as long as the loser says.
func TestGetSetLoser(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis, first, second, third := p.server(""), p.process("A"), p.process("B"), p.process("C")
		third.ahead = 20 * time.Second
		a := &GetSet{Redis: first.client(redis), Key: "lock", TTL: ttl, Now: first.now}
		b := &GetSet{Redis: second.client(redis), Key: "lock", TTL: ttl, Now: second.now}
		c := &GetSet{Redis: third.client(redis), Key: "lock", TTL: ttl, Now: third.now}
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
		next := p.process("D")
		d := &GetSet{Redis: next.client(redis), Key: "lock", TTL: ttl, Now: next.now}
		p.isRefused(d.TryLock) // the expiry that B wrote has passed
	})
}
