package redisson

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func TestRedisson(t *testing.T) {
	p := newPair(t, fairWait)
	p.run("each side sees the locks of the other", eachSideExcludesTheOther)
	p.run("readers and writers", readersAndWriters)
	p.run("a reentrant lock is held until its last unlock", reentrant)
	p.run("a writer of the peer becomes a reader", downgrade)
	p.run("a multi-lock is taken as a whole or not at all", multi)
	p.run("hand-over", func(p *pair) { handOvers(p, "one server", 30) })
	p.run("the watchdogs are seen", watchdogs)
	p.run("force unlock", forceUnlock)
	p.run("a fair lock serves both sides in order", fairOrder)
	p.run("contended rounds", contendedRounds)
	p.run("contended fencing tokens", contendedTokens)
	p.run("contended readers and writers", contendedReaders)
	p.run("lost replies", lostReplies)
}

func eachSideExcludesTheOther(p *pair) {
	for _, kind := range exclusive {
		key := "exclude " + kind
		h := p.lock(kind, key)
		assert.Equal(p, "false", p.java.do("a", "try", kind, key), kind)
		assert.Equal(p, "true", p.java.do("a", "locked", kind, key), kind)
		p.unlock(h)
		assert.Equal(p, "true", p.java.do("a", "try", kind, key), kind)
		p.refused(kind, key)
		p.java.do("a", "unlock", kind, key)
		p.unlock(p.lock(kind, key))
	}
}

func readersAndWriters(p *pair) {
	h := p.lock("read", "rw")
	p.java.do("a", "lock", "read", "rw", "-1")
	assert.Equal(p, "false", p.java.do("b", "try", "write", "rw"))
	p.refused("write", "rw")
	p.unlock(h)
	p.refused("write", "rw")
	p.java.do("a", "unlock", "read", "rw")
	w := p.lock("write", "rw")
	assert.Equal(p, "false", p.java.do("a", "try", "read", "rw"))
	r, err := p.goes["lock"].RWMutex("rw").Downgrade(p.Context(), w)
	require.NoError(p, err)
	assert.Equal(p, "true", p.java.do("a", "try", "read", "rw"), "the writer became a reader")
	p.unlock(r)
	p.java.do("a", "unlock", "read", "rw")
	p.java.do("a", "lock", "write", "rw", "-1")
	p.refused("read", "rw")
	p.java.do("a", "unlock", "write", "rw")
	require.EventuallyWithT(p, func(c *assert.CollectT) { // Redisson removes the answer to its unlock later
		keys, err := p.rdb.Keys(p.Context(), "*rw*").Result()
		assert.NoError(c, err)
		assert.Empty(c, keys)
	}, 10*time.Second, 10*time.Millisecond)
}

// reentrant locks twice on either side. The first unlock lets nobody in.
func reentrant(p *pair) {
	p = p.patient()
	for _, kind := range exclusive {
		key := "reentrant " + kind
		p.java.do("a", "lock", kind, key, millis(lease))
		p.java.do("a", "lock", kind, key, millis(lease))
		p.refused(kind, key)
		waiting := p.later(p.locker(kind, key))
		p.awaitWaiter(key)
		p.java.do("a", "unlock", kind, key)
		_, rival := p.more()
		_, err := locker(rival, kind, key).TryLock(p.Context())
		require.ErrorIs(p, err, lock.ErrNotAcquired, kind)
		assert.Empty(p, waiting, kind)
		p.java.do("a", "unlock", kind, key)
		p.unlock(p.get(waiting, woken).held)
	}

	again := p.goes["lock"].Reentrant("reentrant")
	outer, err := again.Lock(p.Context())
	require.NoError(p, err)
	ctx, cancel := outer.Context(p.Context())
	defer cancel()
	inner, err := again.Lock(ctx)
	require.NoError(p, err)
	p.unlock(inner)
	assert.Equal(p, "false", p.java.do("a", "try", "lock", "reentrant"))
	p.unlock(outer)
	assert.Equal(p, "true", p.java.do("a", "try", "lock", "reentrant"))
	p.java.do("a", "unlock", "lock", "reentrant")
}

// downgrade lets a writer of the peer lock for reading and then unlock for writing.
func downgrade(p *pair) {
	p.java.do("a", "lock", "write", "down", "-1")
	p.java.do("a", "lock", "read", "down", "-1")
	p.refused("read", "down")
	p.java.do("a", "unlock", "write", "down")
	h := p.lock("read", "down")
	p.refused("write", "down")
	p.unlock(h)
	p.refused("write", "down")
	p.java.do("a", "unlock", "read", "down")
	p.unlock(p.lock("write", "down"))
}

// multi compares the RMultiLock of the peer, whose members are RLocks, with a lock.Multi.
func multi(p *pair) {
	h := p.lock("multi", "m1,m2")
	assert.Equal(p, "false", p.java.do("a", "try", "multi", "m2,m3"))
	assert.Equal(p, "false", p.java.do("a", "try", "lock", "m1"))
	assert.Equal(p, "false", p.java.do("a", "locked", "lock", "m3"), "nothing is kept of an attempt")
	waiting := p.java.start("b", "lock", "multi", "m1,m2", "-1")
	p.java.pending(waiting)
	p.unlock(h)
	p.java.await(waiting, "multi")

	p.refused("multi", "m2,m3")
	p.refused("lock", "m1")
	p.unlock(p.lock("lock", "m3"))
	got := p.later(p.locker("multi", "m2,m1"))
	p.awaitWaiter("m1")
	assert.Empty(p, got)
	p.java.do("b", "unlock", "multi", "m1,m2")
	p.unlock(p.get(got, time.Minute).held)
}

// watchdogs holds a lock on each side for longer than its TTL.
func watchdogs(p *pair) {
	held := make(map[string]*lock.Held)
	for _, kind := range all {
		held[kind] = p.lock(kind, "of Go "+kind)
		p.java.do("a", "lock", kind, "of Java "+kind, "-1")
	}
	<-time.After(watchdog * 2)
	for _, kind := range all {
		assert.True(p, held[kind].Valid(), kind)
		assert.Equal(p, "false", p.java.do("b", "try", rival(kind), "of Go "+kind), kind)
		p.refused(rival(kind), "of Java "+kind)
		p.unlock(held[kind])
		p.java.do("a", "unlock", kind, "of Java "+kind)
	}
}

func forceUnlock(p *pair) {
	held := make(map[string]*lock.Held)
	for _, kind := range all {
		held[kind] = p.lock(kind, "force "+kind)
		assert.Equal(p, "true", p.java.do("a", "force", kind, "force "+kind), kind)
	}
	for _, kind := range all {
		key := "force " + kind
		<-held[kind].Done()
		require.ErrorIs(p, held[kind].Err(), lock.ErrLost, kind)
		require.ErrorIs(p, held[kind].Unlock(p.Context()), lock.ErrLost, kind)

		p.java.do("a", "lock", kind, key, "-1")
		client := p.goes[strings.NewReplacer("read", "lock", "write", "lock").Replace(kind)]
		require.NoError(p, client.ForceRelease(p.Context(), key), kind)
		p.unlock(p.lock(rival(kind), key))
		a := <-p.java.start("a", "unlock", kind, key)
		if kind == "fair" { // unlock of a free RFairLock is no error in Redisson
			assert.Equal(p, "ok", a.kind, a.text)
			continue
		}
		assert.Equal(p, "error", a.kind, "%s: the peer does not hold it: %s", kind, a.text)
	}
}
