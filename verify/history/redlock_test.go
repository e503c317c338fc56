package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cluster is a Redlock's three servers.
func cluster(p *play) []*server {
	return []*server{p.server("redis1"), p.server("redis2"), p.server("redis3")}
}

// redlock returns a process and its Redlock, which asks the servers in that order.
func redlock(p *play, name string, servers ...*server) (*process, *Redlock) {
	proc := p.process(name)
	l := &Redlock{Key: "lock", Value: "of " + name, TTL: ttl, Now: proc.now}
	for _, s := range servers {
		l.Servers = append(l.Servers, proc.client(s))
	}
	return proc, l
}

// gotTwoOfThree is a Redlock of A on the first two servers: its request to the third
// was lost.
func gotTwoOfThree(p *play, servers []*server) *process {
	first, a := redlock(p, "A", servers...)
	first.stopsBefore(3)
	try := first.begins(func() { require.Positive(p, a.TryLock(p.Context())) })
	first.nextRequest(isLost)
	first.goesOn()
	try.ends()
	p.enters(first)
	return first
}

// A process has its majority in time, and then stands still.
func TestRedlockPause(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			servers := cluster(p)
			first, a := redlock(p, "A", servers...)
			second, b := redlock(p, "B", servers...)
			require.Positive(p, a.TryLock(p.Context()))
			first.stops()
			p.after(ttl + time.Second)
			require.Positive(p, b.TryLock(p.Context()))
			p.enters(second)
			first.goesOn()
			p.enters(first)
			require.Equal(p, []string{"B", "A"}, p.inside)
		})
	})
	t.Run("ours", oursStandsStill)
}

// One server of the majority comes back without its data.
func TestRedlockRestart(t *testing.T) {
	const how = "CRASHES and comes back without its data"
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			servers := cluster(p)
			gotTwoOfThree(p, servers)
			servers[1].loses(how)
			second, b := redlock(p, "B", servers...)
			require.Positive(p, b.TryLock(p.Context()))
			p.enters(second)
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) {
		oursLosesTheLock(t, func(s *server) { s.loses(how) })
	})
	t.Run("ours on three", func(t *testing.T) {
		ourQuorumLosesAServer(t, func(s *server) { s.loses(how) })
	})
}

// ourQuorumLosesAServer: it is Redlock, so there are two holders as well, and no
// token. But the first is told by its next renewal, which finds no majority.
func ourQuorumLosesAServer(t *testing.T, how func(*server)) {
	perform(t, func(p *play) {
		servers := cluster(p)
		a, b := p.oursOn("A", servers), p.oursOn("B", servers)
		servers[2].goesDown()
		old := a.gets("lock")
		p.after(4 * time.Second) // what A asks of the third is not waited for any more
		servers[2].comesBack()
		how(servers[1])
		held := b.gets("lock")
		a.has(old)
		require.Zero(p, held.Token())
		p.after(ttl / 3)
		a.knowsTheLoss(old)
		b.has(held)
	})
}

// The clock of one server of the majority is stepped forward.
func TestRedlockClock(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			servers := cluster(p)
			gotTwoOfThree(p, servers)
			servers[1].steps(ttl)
			second, b := redlock(p, "B", servers...)
			require.Positive(p, b.TryLock(p.Context()))
			p.enters(second)
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) {
		oursLosesTheLock(t, func(s *server) { s.steps(ttl) })
	})
	t.Run("ours on three", func(t *testing.T) {
		ourQuorumLosesAServer(t, func(s *server) { s.steps(ttl) })
	})
}

// Three ask at the same time and each gets one server: nobody has the lock.
func TestRedlockSplit(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			s := cluster(p)
			orders := [][]*server{{s[0], s[1], s[2]}, {s[1], s[2], s[0]}, {s[2], s[0], s[1]}}
			var procs []*process
			var tries []*call
			for i, order := range orders {
				proc, l := redlock(p, string(rune('A'+i)), order...)
				proc.stopsBefore(2)
				procs = append(procs, proc)
				tries = append(tries, proc.begins(func() { require.Zero(p, l.TryLock(p.Context())) }))
			}
			for _, proc := range procs {
				proc.stopsBefore(2) // its first release
				proc.goesOn()
			}
			for i, proc := range procs {
				proc.goesOn()
				tries[i].ends()
			}
		})
	})
	t.Run("ours", func(t *testing.T) { // one server decides
		perform(t, func(p *play) {
			redis := p.server("")
			a, b, c := p.ours("A", redis), p.ours("B", redis), p.ours("C", redis)
			a.gets("lock")
			b.isRefused("lock")
			c.isRefused("lock")
		})
	})
}

// A server that is dead costs nothing: that is what Redlock is for.
func TestRedlockDeadServer(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			servers := cluster(p)
			gotTwoOfThree(p, servers)
			_, b := redlock(p, "B", servers...)
			require.Zero(p, b.TryLock(p.Context()))
		})
	})
	t.Run("ours on three", func(t *testing.T) {
		perform(t, func(p *play) {
			servers := cluster(p)
			a, b := p.oursOn("A", servers), p.oursOn("B", servers)
			servers[2].goesDown()
			held := a.gets("lock")
			p.after(2 * ttl)
			b.isRefused("lock")
			a.has(held)
		})
	})
}
