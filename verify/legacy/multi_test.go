package legacy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// TestMultiLockForeignExpire: a process pauses for 5 s between the short leases and the
// PEXPIRE of two locks. It extends the lock of another process and believes it has both.
func TestMultiLockForeignExpire(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis, first, second := p.server(""), p.process("A"), p.process("B")
		member := func(key string) *Redisson {
			return &Redisson{Redis: first.client(redis), Key: key, Owner: "A:1", Lease: ttl}
		}
		a := &MultiLock{Members: []*Redisson{member("lock1"), member("lock2")}, Wait: 2 * time.Second, Lease: ttl, Now: first.now}
		b := &Redisson{Redis: second.client(redis), Key: "lock1", Owner: "B:1", Lease: ttl}
		first.pauseBefore(3)
		try := first.start(func() { p.acquires(a.TryLock) })
		p.advance(5 * time.Second)
		p.acquires(b.try)
		p.works(second)
		first.resume()
		try.wait()
		p.works(first)
		require.Equal(p, []string{"B", "A"}, p.working)
		require.False(p, redis.redis.Exists("lock2"), "and A has nothing at all")
	})
	runScenario(t, "ours", func(p *scenario) { // an acquisition that takes too long fails
		a, b, c := p.threeUsers()
		a.pauseBefore(2)
		try := a.start(func() {
			_, err := lock.Multi(a.locks.Mutex("lock1"), a.locks.Mutex("lock2")).TryLock(p.Context())
			require.Error(p, err)
			a.say("TryLock: %v", err)
		})
		p.advance(ttl + time.Second)
		held := b.lock("lock1")
		a.resume()
		try.wait()
		c.tryLockRefused("lock1")
		b.assertValid(held)
		p.advance(time.Second)
		c.lock("lock2")
	})
}

func hashMulti(p *scenario, name string, s *server, members ...string) (*process, *HashMulti) {
	proc := p.process(name)
	return proc, &HashMulti{Redis: proc.client(s), Group: "locks", Value: name, Members: members, TTL: ttl, Now: proc.now}
}

// TestHashMultiClock: a process whose clock is ahead takes members that are held.
func TestHashMultiClock(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis := p.server("")
		first, a := hashMulti(p, "A", redis, "1", "2")
		second, b := hashMulti(p, "B", redis, "2", "3")
		second.ahead = ttl + time.Second
		p.acquires(a.TryLock)
		p.works(first)
		p.acquires(b.TryLock)
		p.works(second)
		require.Equal(p, []string{"A", "B"}, p.working)
	})
	runScenario(t, "ours", func(p *scenario) {
		a, b := p.twoUsers()
		_, err := lock.Multi(a.locks.Mutex("1"), a.locks.Mutex("2")).TryLock(p.Context())
		require.NoError(p, err)
		p.stepWallClock(ttl + time.Second)
		_, err = lock.Multi(b.locks.Mutex("2"), b.locks.Mutex("3")).TryLock(p.Context())
		require.ErrorIs(p, err, lock.ErrNotAcquired)
	})
}

// TestHashMultiRelease: a process outlives its lease and removes the members of the next
// holder.
func TestHashMultiRelease(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis := p.server("")
		first, a := hashMulti(p, "A", redis, "1", "2")
		second, b := hashMulti(p, "B", redis, "2", "3")
		third, c := hashMulti(p, "C", redis, "2")
		p.pauseHolder(first, a.TryLock, second, b.TryLock)
		require.NoError(p, a.Unlock(p.Context()))
		p.acquires(c.TryLock)
		p.works(third)
		require.Equal(p, []string{"B", "C"}, p.working)
	})
	runScenario(t, "ours", oursPaused)
}
