package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// A process that is killed amid thousands of acquires leaves nothing for ever, and
// no lock for longer than a TTL.
func TestKilledAmidAcquires(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	rdb := server.Client(t)
	n, locks := rounds(3, 100), 0
	var gone times
	played := enough(n, func() bool { return locks > 0 }, func(round int) {
		o := order{Role: flood, Addr: server.Addr(), TTL: ttl}
		for i := range 200 {
			o.Keys = append(o.Keys, fmt.Sprint("flood ", round, " ", i))
		}
		p := start(t, o)
		p.hear(t, new(holding))
		awaitConnections(t, rdb, true)
		time.Sleep(100*time.Millisecond + rand.N(300*time.Millisecond))
		p.kill()
		killed := time.Now()
		awaitConnections(t, rdb, false)
		executed := time.Now() // all that they had sent: a server that stands still does so when it goes on
		left := whatIsLeft(t, rdb)
		require.Empty(t, left.endless, "keys without an end")
		locks += len(left.locks)
		var began time.Duration // when the look did that saw what is left
		for len(left.locks) > 0 {
			require.LessOrEqual(t, began, ttl+ttl/100, "locks of the dead are left for so long: %v", left.locks)
			time.Sleep(5 * time.Millisecond)
			began = time.Since(executed)
			left = whatIsLeft(t, rdb)
		}
		gone.add(time.Since(killed))
		require.NoError(t, rdb.FlushAll(t.Context()).Err()) // or else looking takes longer each time
	})
	report.Add("killed in a flood  %d processes with 400 acquires under way; %d locks left, all with an end, gone after: %v", played, locks, &gone)
	assert.Positive(t, locks, "they held nothing when they were killed")
}

// A process that closes its client when it is asked to terminate leaves nothing, but
// what it had lost by then for want of an answer: that ends by itself.
func TestTerminated(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	rdb := server.Client(t)
	n := rounds(2, 60)
	const processes, keys = 2, 40
	for round := range n {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		c := assemble(t, server, holder, fmt.Sprint("terminated ", round), processes, keys)
		var work sync.WaitGroup
		var lost atomic.Uint64
		for _, p := range c.processes {
			work.Go(func() {
				time.Sleep(rand.N(ttl))
				p.terminate(t)
				var said closed
				p.hear(t, &said)
				assert.Empty(t, said.Err)
				lost.Add(said.Lost)
				assert.NoError(t, p.wait())
				t.Logf("a process lost %d locks and said: %s", said.Lost, &p.errors)
			})
		}
		work.Wait()
		left := whatIsLeft(t, rdb)
		assert.LessOrEqual(t, uint64(len(left.locks)), lost.Load(), "locks are left: %v", left.locks)
		assert.Zero(t, left.queues, "places are left")
		assert.Empty(t, left.endless, "keys without an end")
		c.close(ctx, t)
		cancel()
	}
	report.Add("terminated         %d processes with %d locks each: nothing left", n*processes, keys)
}
