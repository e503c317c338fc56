package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock of one process is ahead: it takes over a lock that is held.
func TestGetSetClock(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis, first, second := p.server(""), p.process("A"), p.process("B")
			second.ahead = ttl + time.Second
			a := &GetSet{Redis: first.client(redis), Key: "lock", TTL: ttl, Now: first.now}
			b := &GetSet{Redis: second.client(redis), Key: "lock", TTL: ttl, Now: second.now}
			p.got(a.TryLock)
			p.enters(first)
			p.got(b.TryLock)
			p.enters(second)
			require.Equal(p, []string{"A", "B"}, p.inside)
		})
	})
	t.Run("ours", func(t *testing.T) { // who waits is never asked for the time
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			held := a.gets("lock")
			p.stepsWallClock(ttl + time.Second)
			b.isRefused("lock")
			a.knowsTheLoss(held) // too early, and so on the safe side: its machine might have been asleep
		})
	})
}

// A process looks at its clock and, before its DEL is sent, stands still: it deletes
// the lock of the next holder.
func TestGetSetRelease(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis, first, second, third := p.server(""), p.process("A"), p.process("B"), p.process("C")
			a := &GetSet{Redis: first.client(redis), Key: "lock", TTL: ttl, Now: first.now}
			b := &GetSet{Redis: second.client(redis), Key: "lock", TTL: ttl, Now: second.now}
			c := &GetSet{Redis: third.client(redis), Key: "lock", TTL: ttl, Now: third.now}
			p.got(a.TryLock)
			p.after(ttl - time.Second)
			first.stopsBefore(1)
			unlock := first.begins(func() { require.NoError(p, a.Unlock(p.Context())) })
			p.after(2 * time.Second)
			p.got(b.TryLock)
			p.enters(second)
			first.goesOn()
			unlock.ends()
			p.got(c.TryLock)
			p.enters(third)
			require.Equal(p, []string{"B", "C"}, p.inside, "neither of which did anything wrong")
		})
	})
	t.Run("ours", oursStandsStill)
}

// Two find the lock ended. The one that loses has still written its own time, so the
// lock lasts as long as the loser says.
func TestGetSetLoser(t *testing.T) {
	perform(t, func(p *play) {
		redis, first, second, third := p.server(""), p.process("A"), p.process("B"), p.process("C")
		third.ahead = 20 * time.Second
		a := &GetSet{Redis: first.client(redis), Key: "lock", TTL: ttl, Now: first.now}
		b := &GetSet{Redis: second.client(redis), Key: "lock", TTL: ttl, Now: second.now}
		c := &GetSet{Redis: third.client(redis), Key: "lock", TTL: ttl, Now: third.now}
		p.got(a.TryLock)
		first.crashes()
		p.after(ttl + time.Second)
		third.stopsBefore(3)
		try := third.begins(func() { p.refused(c.TryLock) })
		p.got(b.TryLock)
		third.goesOn()
		try.ends()
		second.crashes()
		p.after(ttl + time.Second)
		next := p.process("D")
		d := &GetSet{Redis: next.client(redis), Key: "lock", TTL: ttl, Now: next.now}
		p.refused(d.TryLock) // B, which had the lock, wrote an end that has passed
	})
}
