package legacy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cluster starts the three servers of a Redlock.
func cluster(p *scenario) []*server {
	return []*server{p.server("redis1"), p.server("redis2"), p.server("redis3")}
}

// redlock starts a process with a Redlock that asks the servers in this order.
func redlock(p *scenario, name string, servers ...*server) (*process, *Redlock) {
	proc := p.process(name)
	l := &Redlock{Key: "lock", Value: "of " + name, TTL: ttl, Now: proc.now}
	for _, s := range servers {
		l.Servers = append(l.Servers, proc.client(s))
	}
	return proc, l
}

// gotTwoOfThree lets process A acquire a Redlock on the first two servers. Its request
// to the third server is lost.
func gotTwoOfThree(p *scenario, servers []*server) *process {
	first, a := redlock(p, "A", servers...)
	first.pauseBefore(3)
	try := first.start(func() { require.Positive(p, a.TryLock(p.Context())) })
	first.setNextFate(lost)
	first.resume()
	try.wait()
	p.works(first)
	return first
}

// TestRedlockPause: a process gets a majority in time and then pauses.
func TestRedlockPause(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		servers := cluster(p)
		first, a := redlock(p, "A", servers...)
		second, b := redlock(p, "B", servers...)
		require.Positive(p, a.TryLock(p.Context()))
		first.pause()
		p.advance(ttl + time.Second)
		require.Positive(p, b.TryLock(p.Context()))
		p.works(second)
		first.resume()
		p.works(first)
		require.Equal(p, []string{"B", "A"}, p.working)
	})
	runScenario(t, "ours", oursPaused)
}

// TestRedlockRestart: one server of the majority restarts without its data.
func TestRedlockRestart(t *testing.T) {
	const how = "CRASHES and comes back without its data"
	runScenario(t, "then", func(p *scenario) {
		servers := cluster(p)
		gotTwoOfThree(p, servers)
		servers[1].loseData(how)
		second, b := redlock(p, "B", servers...)
		require.Positive(p, b.TryLock(p.Context()))
		p.works(second)
		require.Equal(p, []string{"A", "B"}, p.working)
	})
	runScenario(t, "ours", func(p *scenario) { oursLosesData(p, func(s *server) { s.loseData(how) }) })
	runScenario(t, "ours on three", func(p *scenario) { oursQuorumLosesServer(p, func(s *server) { s.loseData(how) }) })
}

// oursQuorumLosesServer: the quorum is a Redlock, so there are two holders and no
// token. But the next renewal finds no majority and tells the first holder.
func oursQuorumLosesServer(p *scenario, how func(*server)) {
	servers := cluster(p)
	a, b := p.quorumUser("A", servers), p.quorumUser("B", servers)
	servers[2].disconnect()
	old := a.lock("lock")
	p.advance(4 * time.Second) // A no longer waits for the third server
	servers[2].reconnect()
	how(servers[1])
	held := b.lock("lock")
	a.assertValid(old)
	require.Zero(p, held.Token())
	p.advance(ttl / 3)
	a.assertLost(old)
	b.assertValid(held)
}

// TestRedlockClock: the clock of one server of the majority is stepped forward.
func TestRedlockClock(t *testing.T) {
	playKnown(t, "redlock", twoHolders, wrongWrite)
	runScenario(t, "ours", func(p *scenario) { oursLosesData(p, func(s *server) { s.stepClock(ttl) }) })
	runScenario(t, "ours on three", func(p *scenario) { oursQuorumLosesServer(p, func(s *server) { s.stepClock(ttl) }) })
}

// TestRedlockSplit: three processes ask at the same time, and each gets one server.
func TestRedlockSplit(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		s := cluster(p)
		orders := [][]*server{{s[0], s[1], s[2]}, {s[1], s[2], s[0]}, {s[2], s[0], s[1]}}
		var procs []*process
		var tries []*call
		for i, order := range orders {
			proc, l := redlock(p, string(rune('A'+i)), order...)
			proc.pauseBefore(2)
			procs = append(procs, proc)
			tries = append(tries, proc.start(func() { require.Zero(p, l.TryLock(p.Context())) }))
		}
		for _, proc := range procs {
			proc.pauseBefore(2) // its first release
			proc.resume()
		}
		for i, proc := range procs {
			proc.resume()
			tries[i].wait()
		}
	})
	runScenario(t, "ours", func(p *scenario) { // one server decides
		a, b, c := p.threeUsers()
		a.lock("lock")
		b.tryLockRefused("lock")
		c.tryLockRefused("lock")
	})
}

// TestRedlockDeadServer: a dead server does not affect the lock.
func TestRedlockDeadServer(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		servers := cluster(p)
		gotTwoOfThree(p, servers)
		_, b := redlock(p, "B", servers...)
		require.Zero(p, b.TryLock(p.Context()))
	})
	runScenario(t, "ours on three", func(p *scenario) {
		servers := cluster(p)
		a, b := p.quorumUser("A", servers), p.quorumUser("B", servers)
		servers[2].disconnect()
		held := a.lock("lock")
		p.advance(2 * ttl)
		b.tryLockRefused("lock")
		a.assertValid(held)
	})
}
