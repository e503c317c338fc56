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
	perform(t, func(p *play) {
		servers := cluster(p)
		gotTwoOfThree(p, servers)
		_, b := redlock(p, "B", servers...)
		require.Zero(p, b.TryLock(p.Context()))
	})
}
