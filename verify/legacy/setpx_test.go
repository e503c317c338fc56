package legacy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSetPXForeignDelete: a process outlives its lease and deletes the lock of the next
// holder.
func TestSetPXForeignDelete(t *testing.T) {
	runScenario(t, "then", func(p *scenario) {
		redis, first, second, third := p.server(""), p.process("A"), p.process("B"), p.process("C")
		a := &SetPX{Redis: first.client(redis), Key: "lock", TTL: ttl}
		b := &SetPX{Redis: second.client(redis), Key: "lock", TTL: ttl}
		c := &SetPX{Redis: third.client(redis), Key: "lock", TTL: ttl}
		p.pauseHolder(first, a.TryLock, second, b.TryLock)
		require.NoError(p, a.Unlock(p.Context()))
		p.acquires(c.TryLock)
		p.works(third)
		require.Equal(p, []string{"B", "C"}, p.working, "neither of which did anything wrong")
	})
	runScenario(t, "ours", oursPaused)
}
