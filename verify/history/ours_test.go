package history

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// user is a process that uses our lock.
type user struct {
	*process
	locks *lock.Client
}

// ours starts a process with a client of ours. The server knows our scripts then,
// as it does after the first lock.
func (p *play) ours(name string, s *server) user {
	proc := p.process(name)
	return p.uses(proc, proc.store(s))
}

// oursOn does the same on a quorum of servers.
func (p *play) oursOn(name string, servers []*server) user {
	proc := p.process(name)
	var stores []lock.Store
	for _, s := range servers {
		stores = append(stores, proc.store(s))
	}
	quorum, err := lock.Quorum(stores...)
	require.NoError(p, err)
	return p.uses(proc, quorum)
}

func (p *process) store(s *server) lock.Store {
	store, err := redisstore.New(p.client(s), nil)
	require.NoError(p, err)
	return store
}

func (p *play) uses(proc *process, store lock.Store) user {
	locks, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: ttl}})
	require.NoError(p, err)
	u := user{proc, locks}
	p.Cleanup(func() {
		proc.crash()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = locks.Close(ctx) // a process that has crashed releases nothing
	})
	p.hush(true)
	held, err := locks.Mutex("another").TryLock(p.Context())
	require.NoError(p, err)
	require.NoError(p, held.Unlock(p.Context()))
	synctest.Wait() // for what other servers of a quorum still do
	p.hush(false)
	return u
}

// gets waits for the lock.
func (u user) gets(key string) *lock.Held {
	held, err := u.locks.Mutex(key).Lock(u.Context())
	require.NoError(u, err)
	u.say("HAS the lock, token %d, valid for %v", held.Token(), time.Until(held.Deadline()).Round(time.Millisecond))
	return held
}

// isRefused tries to get the lock and does not.
func (u user) isRefused(key string) {
	_, err := u.locks.Mutex(key).TryLock(u.Context())
	require.ErrorIs(u, err, lock.ErrNotAcquired)
	u.say("is refused: %v", err)
}

// has asserts that the handle is valid.
func (u user) has(held *lock.Held) {
	require.True(u, held.Valid())
	u.say("asks Valid: true")
}

// knowsTheLoss asserts that the holder is told that its lock is lost.
func (u user) knowsTheLoss(held *lock.Held) {
	require.False(u, held.Valid())
	require.ErrorIs(u, held.Err(), lock.ErrLost)
	u.say("asks Valid: false, because: %v", held.Err())
}

// givesBack unlocks, what is left of it.
func (u user) givesBack(held *lock.Held) {
	err := held.Unlock(u.Context())
	u.say("Unlock: %v", err)
	if !errors.Is(err, lock.ErrLost) {
		assert.NoError(u, err)
	}
}

// resource takes writes with a fencing token, none lower than the highest it has
// seen.
type resource struct {
	*play
	highest uint64
}

func (r *resource) takes(from user, token uint64) bool {
	if token < r.highest {
		r.say("resource", "REJECTS the write of %s: token %d is below %d", from.name, token, r.highest)
		return false
	}
	r.highest = token
	r.say("resource", "takes the write of %s, token %d", from.name, token)
	return true
}

// oursLosesTheReply: the second try is of the same owner, so it gets the lock, once.
func oursLosesTheReply(t *testing.T) {
	perform(t, func(p *play) {
		redis := p.server("")
		a, b := p.ours("A", redis), p.ours("B", redis)
		a.nextRequest(losesReply)
		held := a.gets("lock")
		require.Less(p, time.Since(p.began), time.Second)
		b.isRefused("lock")
		a.givesBack(held)
		b.gets("lock")
	})
}

// oursStandsStill: who wakes up after its lease knows it if it asks, its late writes
// are rejected by their token, and it takes nothing from the next holder.
func oursStandsStill(t *testing.T) {
	perform(t, func(p *play) {
		redis, data := p.server(""), &resource{play: p}
		a, b, c := p.ours("A", redis), p.ours("B", redis), p.ours("C", redis)
		old := a.gets("lock")
		a.stops()
		p.after(ttl + time.Second)
		held := b.gets("lock")
		require.True(p, data.takes(b, held.Token()))
		a.goesOn()
		require.False(p, data.takes(a, old.Token()), "even if it does not ask")
		a.knowsTheLoss(old)
		a.givesBack(old)
		c.isRefused("lock")
		b.has(held)
	})
}

// oursLosesTheLock: whatever takes the key away from the server makes two holders;
// then the tokens still rise, and the first holder is told by its next renewal.
func oursLosesTheLock(t *testing.T, how func(*server)) {
	perform(t, func(p *play) {
		redis, data := p.server(""), &resource{play: p}
		a, b := p.ours("A", redis), p.ours("B", redis)
		old := a.gets("lock")
		p.after(time.Second)
		how(redis)
		held := b.gets("lock")
		a.has(old) // two holders: not promised
		require.Greater(p, held.Token(), old.Token())
		require.True(p, data.takes(b, held.Token()))
		require.False(p, data.takes(a, old.Token()))
		p.after(ttl / 3)
		a.knowsTheLoss(old)
		b.has(held)
	})
}

// stepsWallClock moves the wall clock of the machine that our clients run on.
func (p *play) stepsWallClock(d time.Duration) {
	p.say("machine", "its wall clock is stepped by %v", d)
	seam.StepWall(d)
	p.Cleanup(func() { seam.StepWall(-d) })
}
