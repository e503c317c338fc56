package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process outlives its lease and then deletes the lock of the next holder.
func TestSetPXForeignDelete(t *testing.T) {
	t.Run("then", func(t *testing.T) {
		perform(t, func(p *play) {
			redis, first, second, third := p.server(""), p.process("A"), p.process("B"), p.process("C")
			a := &SetPX{Redis: first.client(redis), Key: "lock", TTL: ttl}
			b := &SetPX{Redis: second.client(redis), Key: "lock", TTL: ttl}
			c := &SetPX{Redis: third.client(redis), Key: "lock", TTL: ttl}
			p.got(a.TryLock)
			first.stops()
			p.after(ttl + time.Second)
			p.got(b.TryLock)
			p.enters(second)
			first.goesOn()
			require.NoError(p, a.Unlock(p.Context()))
			p.got(c.TryLock)
			p.enters(third)
			require.Equal(p, []string{"B", "C"}, p.inside, "neither of which did anything wrong")
		})
	})
	t.Run("ours", oursStandsStill)
}
