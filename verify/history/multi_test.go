package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// A process stands still for 5 s while it takes two locks for 30 s, with a short lease
// so far: then it prolongs the lock of another and believes to have both.
func TestMultiLockForeignExpire(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis, first, second := p.server(""), p.process("A"), p.process("B")
			member := func(key string) *Redisson {
				return &Redisson{Redis: first.client(redis), Key: key, Owner: "A:1", Lease: ttl}
			}
			a := &MultiLock{Members: []*Redisson{member("lock1"), member("lock2")}, Wait: 2 * time.Second, Lease: ttl, Now: first.now}
			b := &Redisson{Redis: second.client(redis), Key: "lock1", Owner: "B:1", Lease: ttl}
			first.stopsBefore(3)
			try := first.begins(func() { p.got(a.TryLock) })
			p.after(5 * time.Second)
			p.got(b.try)
			p.enters(second)
			first.goesOn()
			try.ends()
			p.enters(first)
			require.Equal(p, []string{"B", "A"}, p.inside)
			require.False(p, redis.redis.Exists("lock2"), "and A has nothing at all")
		})
	})
	t.Run("ours", func(t *testing.T) { // what is not got in time is not got
		perform(t, func(p *play) {
			redis := p.server("")
			a, b, c := p.ours("A", redis), p.ours("B", redis), p.ours("C", redis)
			a.stopsBefore(2)
			try := a.begins(func() {
				_, err := lock.Multi(a.locks.Mutex("lock1"), a.locks.Mutex("lock2")).TryLock(p.Context())
				require.Error(p, err)
				a.say("TryLock: %v", err)
			})
			p.after(ttl + time.Second)
			held := b.gets("lock1")
			a.goesOn()
			try.ends()
			c.isRefused("lock1")
			b.has(held)
			p.after(time.Second)
			c.gets("lock2")
		})
	})
}

func hashMulti(p *play, name string, s *server, members ...string) (*process, *HashMulti) {
	proc := p.process(name)
	return proc, &HashMulti{Redis: proc.client(s), Group: "locks", Value: name, Members: members, TTL: ttl, Now: proc.now}
}

// The clock of one process is ahead: it takes members that are held.
func TestHashMultiClock(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			first, a := hashMulti(p, "A", redis, "1", "2")
			second, b := hashMulti(p, "B", redis, "2", "3")
			second.ahead = ttl + time.Second
			p.got(a.TryLock)
			p.enters(first)
			p.got(b.TryLock)
			p.enters(second)
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			_, err := lock.Multi(a.locks.Mutex("1"), a.locks.Mutex("2")).TryLock(p.Context())
			require.NoError(p, err)
			p.stepsWallClock(ttl + time.Second)
			_, err = lock.Multi(b.locks.Mutex("2"), b.locks.Mutex("3")).TryLock(p.Context())
			require.ErrorIs(p, err, lock.ErrNotAcquired)
		})
	})
}

// A process outlives its lease and then removes the members of the next holder.
func TestHashMultiRelease(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			first, a := hashMulti(p, "A", redis, "1", "2")
			second, b := hashMulti(p, "B", redis, "2", "3")
			third, c := hashMulti(p, "C", redis, "2")
			p.got(a.TryLock)
			first.stops()
			p.after(ttl + time.Second)
			p.got(b.TryLock)
			p.enters(second)
			first.goesOn()
			require.NoError(p, a.Unlock(p.Context()))
			p.got(c.TryLock)
			p.enters(third)
			require.Equal(p, []string{"B", "C"}, p.inside)
		})
	})
	t.Run("ours", oursStandsStill)
}
