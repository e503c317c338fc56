package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const year = 365 * 24 * time.Hour

// A process dies between SETNX and EXPIRE: the lock has no end.
func TestSetNXCrash(t *testing.T) {
	stage := func(p *play) (b *SetNX) {
		redis, first, second := p.server(""), p.process("A"), p.process("B")
		a := &SetNX{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
		first.stopsBefore(2)
		try := first.begins(func() { _, _ = a.TryLock(p.Context()) })
		first.crashes()
		try.ends()
		return &SetNX{Redis: second.client(redis), Key: "lock", Value: "b1", TTL: ttl}
	}
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			b := stage(p)
			p.after(year)
			p.refused(b.TryLock)
		})
	})
	t.Run("with repair", func(t *testing.T) {
		perform(t, func(p *play) {
			b := stage(p)
			p.refused(b.TryLock)
			require.NoError(p, b.Repair(p.Context()))
			p.after(ttl)
			p.got(b.TryLock)
		})
	})
	t.Run("ours", func(t *testing.T) {
		perform(t, func(p *play) {
			redis := p.server("")
			a, b := p.ours("A", redis), p.ours("B", redis)
			a.nextRequest(losesReply)
			a.stopsBefore(2)
			try := a.begins(func() { _, _ = a.locks.Mutex("lock").Lock(p.Context()) })
			a.crashes()
			b.isRefused("lock")
			b.gets("lock")
			require.LessOrEqual(p, time.Since(p.began), ttl+time.Second)
			try.ends()
		})
	})
}

// The reply to SETNX gets lost: the process is shut out by itself, for ever.
func TestSetNXLostReply(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis, first := p.server(""), p.process("A")
			a := &SetNX{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
			first.nextRequest(losesReply)
			_, err := a.TryLock(p.Context())
			require.Error(p, err)
			p.after(year)
			p.refused(a.TryLock) // though nobody else ever wanted the lock
		})
	})
	t.Run("ours", oursLosesTheReply)
}

// A process stands still for longer than the TTL: two are inside, and nothing tells
// the first one.
func TestSetNXPause(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis, first, second := p.server(""), p.process("A"), p.process("B")
			a := &SetNX{Redis: first.client(redis), Key: "lock", Value: "a1", TTL: ttl}
			b := &SetNX{Redis: second.client(redis), Key: "lock", Value: "b1", TTL: ttl}
			p.got(a.TryLock)
			first.stops()
			p.after(ttl + time.Second)
			p.got(b.TryLock)
			p.enters(second)
			first.goesOn()
			p.enters(first)
			require.NoError(p, a.Unlock(p.Context()))
			p.refused((&SetNX{Redis: first.client(redis), Key: "lock", Value: "a2", TTL: ttl}).TryLock) // B still has it
			require.Equal(p, []string{"B", "A"}, p.inside)
		})
	})
	t.Run("ours", oursStandsStill)
}
