package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// writerStats sums up the reports of writers. It is safe for concurrent use.
type writerStats struct {
	mu      sync.Mutex // guards the fields below
	leases  int
	refused int
	guarded int
	untold  int
	told    durations // delays after they resumed
}

func (z *writerStats) add(u leaseReport, resumed time.Time) {
	z.told.add(max(time.Unix(0, u.Told).Sub(resumed), 0))
	z.mu.Lock()
	defer z.mu.Unlock()
	z.leases++
	z.refused += u.Refused
	z.guarded += u.Guarded
	z.untold += u.Untold
}

// TestPausedHolders pauses holders for longer than the TTL while another process gets
// their locks and writes. A former holder is never valid again, its writes are
// rejected by their token, and it is told of the loss.
func TestPausedHolders(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	const keys = 4
	n := rounds(1, 60)
	var seen writerStats
	shown := func() bool { return seen.leases >= n*2*2*keys/4 }
	played := playRounds(n, shown, func(round int) {
		for _, processors := range []int{1, 2} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			name := fmt.Sprint("pausing ", round, " ", processors)
			c := startGroup(t, server, writer, name, 2, keys, fmt.Sprint("GOMAXPROCS=", processors))
			var work sync.WaitGroup
			for i, p := range c.processes {
				work.Go(func() { c.pauseAndTakeOver(ctx, t, p, c.tokens[i], &seen) })
			}
			work.Wait()
			c.close(ctx, t)
			cancel()
		}
	})
	report.Add("paused holders     %d leases of %d processes; told after they resumed: %v", seen.leases, 4*played, &seen.told)
	report.Add("  their writes     %d rejected, %d of them sent after a Valid that was true before the pause; none accepted", seen.refused, seen.guarded)
	report.Add("  their contexts   ended later than Valid turned false %d times", seen.untold)
	assert.True(t, shown(), "too few processes held their locks when they were paused")
}

// pauseAndTakeOver stops a process, acquires its locks, writes, and resumes the process.
func (c *group) pauseAndTakeOver(ctx context.Context, t testing.TB, p *process, tokens map[string]uint64, seen *writerStats) {
	time.Sleep(rand.N(ttl))
	p.stop(t)
	stopped := time.Now()
	takeovers := c.takeOver(ctx, t, tokens)
	wrote := map[string]time.Time{}
	for key, next := range takeovers {
		ok, err := write(ctx, c.rdb, key, next.held.Token())
		assert.NoError(t, err)
		assert.True(t, ok, "%s: the token of the holder was rejected", key)
		wrote[key] = time.Now()
	}
	time.Sleep(time.Until(stopped.Add(ttl + rand.N(2*ttl))))
	resumed := time.Now()
	p.resume(t)
	var said lostReport
	p.receive(t, &said)
	p.kill()
	for key, u := range said.Leases {
		next, ok := takeovers[key]
		if !ok {
			continue
		}
		assert.Less(t, u.Valid, next.got.UnixNano(), "%s: was valid after another process had the lock", key)
		assert.Less(t, u.Written, wrote[key].UnixNano(), "%s: a stale write was accepted", key)
		assert.Zero(t, u.Revivals, key)
		assert.True(t, u.WasLoss, "%s: another cause of its context: %s", key, u.Cause)
		assert.Less(t, u.Told, resumed.Add(timeout/10).UnixNano(), "%s: was told late", key)
		if u.Told > resumed.UnixNano() { // otherwise it was lost before the pause
			assert.Positive(t, u.Refused, key)
			seen.add(u, resumed)
		}
	}
}
