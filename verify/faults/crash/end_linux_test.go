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

// TestKillDuringAcquires kills processes during hundreds of acquires. Every key that they
// leave expires, and every lock within one TTL.
func TestKillDuringAcquires(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	rdb := server.Client(t)
	n, locks := rounds(3, 100), 0
	var gone durations
	played := playRounds(n, func() bool { return locks > 0 }, func(round int) {
		o := order{Role: churner, Addr: server.Addr(), TTL: ttl}
		for i := range 200 {
			o.Keys = append(o.Keys, fmt.Sprint("churn ", round, " ", i))
		}
		p := start(t, o)
		p.receive(t, new(lockedReport))
		awaitConnections(t, rdb, true)
		time.Sleep(100*time.Millisecond + rand.N(300*time.Millisecond))
		p.kill()
		killed := time.Now()
		awaitConnections(t, rdb, false)
		executed := time.Now() // the server has executed all their requests, even if it was paused
		left := listRemains(t, rdb)
		require.Empty(t, left.persistent, "keys without an expiry")
		locks += len(left.locks)
		var began time.Duration // start of the last look at the server
		for len(left.locks) > 0 {
			require.LessOrEqual(t, began, ttl+ttl/100, "locks of killed processes are still there: %v", left.locks)
			time.Sleep(5 * time.Millisecond)
			began = time.Since(executed)
			left = listRemains(t, rdb)
		}
		gone.add(time.Since(killed))
		require.NoError(t, rdb.FlushAll(t.Context()).Err()) // otherwise each look takes longer
	})
	report.Add("killed acquiring   %d processes with 400 concurrent acquires; %d locks left, all expire, gone after: %v", played, locks, &gone)
	assert.Positive(t, locks, "no process held a lock when it was killed")
}

// TestTerminated asks processes to terminate. They close their clients and leave nothing,
// except locks that they had lost without an answer, which expire.
func TestTerminated(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	rdb := server.Client(t)
	n := rounds(2, 60)
	const processes, keys = 2, 40
	for round := range n {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		c := startGroup(t, server, holder, fmt.Sprint("terminated ", round), processes, keys)
		var work sync.WaitGroup
		var lost atomic.Uint64
		for _, p := range c.processes {
			work.Go(func() {
				time.Sleep(rand.N(ttl))
				p.terminate(t)
				var said closedReport
				p.receive(t, &said)
				assert.Empty(t, said.Err)
				lost.Add(said.Lost)
				assert.NoError(t, p.wait())
				t.Logf("a process lost %d locks; its log: %s", said.Lost, &p.errors)
			})
		}
		work.Wait()
		left := listRemains(t, rdb)
		assert.LessOrEqual(t, uint64(len(left.locks)), lost.Load(), "locks are left: %v", left.locks)
		assert.Zero(t, left.queues, "places are left")
		assert.Empty(t, left.persistent, "keys without an expiry")
		c.close(ctx, t)
		cancel()
	}
	report.Add("terminated         %d processes with %d locks each: nothing left", n*processes, keys)
}
