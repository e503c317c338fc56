package legacy

import (
	"context"
	"errors"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// user is a process that uses the lock of this module.
type user struct {
	*process
	locks *lock.Client
}

// user starts a process with a client of this module. It locks once, so that the
// server has the scripts.
func (p *scenario) user(name string, s *server) user {
	proc := p.process(name)
	return p.newUser(proc, proc.store(s))
}

// twoUsers starts two processes with clients of one server; threeUsers starts three.
func (p *scenario) twoUsers() (a, b user) {
	redis := p.server("")
	return p.user("A", redis), p.user("B", redis)
}

func (p *scenario) threeUsers() (a, b, c user) {
	redis := p.server("")
	return p.user("A", redis), p.user("B", redis), p.user("C", redis)
}

// quorumUser is like user for a quorum of servers.
func (p *scenario) quorumUser(name string, servers []*server) user {
	proc := p.process(name)
	var stores []driver.Store
	for _, s := range servers {
		stores = append(stores, proc.store(s))
	}
	quorum, err := quorumstore.New(stores...)
	require.NoError(p, err)
	return p.newUser(proc, quorum)
}

func (p *process) store(s *server) driver.Store {
	store, err := redisstore.New(p.client(s), nil)
	require.NoError(p, err)
	return store
}

func (p *scenario) newUser(proc *process, store driver.Store) user {
	locks, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: ttl}})
	require.NoError(p, err)
	u := user{proc, locks}
	p.Cleanup(func() {
		proc.kill()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = locks.Close(ctx) // a crashed process releases nothing
	})
	p.setQuiet(true)
	held, err := locks.Mutex("another").TryLock(p.Context())
	require.NoError(p, err)
	require.NoError(p, held.Unlock(p.Context()))
	synctest.Wait() // for the requests to other servers of a quorum
	p.setQuiet(false)
	return u
}

// lock waits for the lock.
func (u user) lock(key string) *lock.Held {
	held, err := u.locks.Mutex(key).Lock(u.Context())
	require.NoError(u, err)
	u.say("HAS the lock, token %d, valid for %v", held.Token(), time.Until(held.Deadline()).Round(time.Millisecond))
	return held
}

// tryLockRefused asserts that TryLock is refused.
func (u user) tryLockRefused(key string) {
	_, err := u.locks.Mutex(key).TryLock(u.Context())
	require.ErrorIs(u, err, lock.ErrNotAcquired)
	u.say("is refused: %v", err)
}

// assertValid asserts that the handle is valid.
func (u user) assertValid(held *lock.Held) {
	require.True(u, held.Valid())
	u.say("asks Valid: true")
}

// assertLost asserts that the holder is told of the loss.
func (u user) assertLost(held *lock.Held) {
	require.False(u, held.Valid())
	require.ErrorIs(u, held.Err(), lock.ErrLost)
	u.say("asks Valid: false, because: %v", held.Err())
}

// unlock unlocks a handle, which may be lost.
func (u user) unlock(held *lock.Held) {
	err := held.Unlock(u.Context())
	u.say("Unlock: %v", err)
	if !errors.Is(err, lock.ErrLost) {
		assert.NoError(u, err)
	}
}

// resource accepts a write unless its fencing token is lower than the highest token so
// far.
type resource struct {
	*scenario
	highest uint64
}

func (r *resource) accepts(from user, token uint64) bool {
	if token < r.highest {
		r.say("resource", "REJECTS the write of %s: token %d is below %d", from.name, token, r.highest)
		return false
	}
	r.highest = token
	r.say("resource", "ACCEPTS the write of %s, token %d", from.name, token)
	return true
}

// oursLosesReply: the second try has the same owner, so it gets the lock, once.
func oursLosesReply(p *scenario) {
	a, b := p.twoUsers()
	a.setNextFate(replyLost)
	held := a.lock("lock")
	require.Less(p, time.Since(p.began), time.Second)
	b.tryLockRefused("lock")
	a.unlock(held)
	b.lock("lock")
}

// oursPaused: after the pause the former holder learns of the loss by Valid, its late
// writes are rejected by their token, and its Unlock does not affect the next holder.
func oursPaused(p *scenario) {
	data := &resource{scenario: p}
	a, b, c := p.threeUsers()
	old := a.lock("lock")
	a.pause()
	p.advance(ttl + time.Second)
	held := b.lock("lock")
	require.True(p, data.accepts(b, held.Token()))
	a.resume()
	require.False(p, data.accepts(a, old.Token()), "even if it does not ask")
	a.assertLost(old)
	a.unlock(old)
	c.tryLockRefused("lock")
	b.assertValid(held)
}

// oursLosesData: a server that loses the key makes two holders. Tokens still rise, and
// the next renewal tells the first holder.
func oursLosesData(p *scenario, how func(*server)) {
	redis, data := p.server(""), &resource{scenario: p}
	a, b := p.user("A", redis), p.user("B", redis)
	old := a.lock("lock")
	p.advance(time.Second)
	how(redis)
	held := b.lock("lock")
	a.assertValid(old) // two holders; nothing else is promised
	require.Greater(p, held.Token(), old.Token())
	require.True(p, data.accepts(b, held.Token()))
	require.False(p, data.accepts(a, old.Token()))
	p.advance(ttl / 3)
	a.assertLost(old)
	b.assertValid(held)
}

// stepWallClock moves the wall clock of the machine on which the clients run.
func (p *scenario) stepWallClock(d time.Duration) {
	p.say("machine", "its wall clock is stepped by %v", d)
	seam.StepWall(d)
	p.Cleanup(func() { seam.StepWall(-d) })
}
