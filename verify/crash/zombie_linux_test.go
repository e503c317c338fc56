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

// zombies is what many of them did. Its method is safe for concurrent use.
type zombies struct {
	mu      sync.Mutex // guards all below
	leases  int
	refused int
	guarded int
	untold  int
	told    times // after they went on
}

func (z *zombies) add(u undead, resumed time.Time) {
	z.told.add(max(time.Unix(0, u.Told).Sub(resumed), 0))
	z.mu.Lock()
	defer z.mu.Unlock()
	z.leases++
	z.refused += u.Refused
	z.guarded += u.Guarded
	z.untold += u.Untold
}

// A holder that stood still beyond its TTL, while another got its lock and wrote,
// never finds itself valid after that; what it writes without asking is refused by
// its token; and it is told.
func TestZombies(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	const keys = 4
	n := rounds(1, 60)
	var seen zombies
	shown := func() bool { return seen.leases >= n*2*2*keys/4 }
	played := enough(n, shown, func(round int) {
		for _, processors := range []int{1, 2} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			name := fmt.Sprint("undead ", round, " ", processors)
			c := assemble(t, server, zombie, name, 2, keys, fmt.Sprint("GOMAXPROCS=", processors))
			var work sync.WaitGroup
			for i, p := range c.processes {
				work.Go(func() { c.raise(ctx, t, p, c.tokens[i], &seen) })
			}
			work.Wait()
			c.close(ctx, t)
			cancel()
		}
	})
	report.Add("zombies            %d leases of %d processes; told after they went on by: %v", seen.leases, 4*played, &seen.told)
	report.Add("  their writes     %d refused, of which %d were sent after a Valid that was true before the pause; none accepted", seen.refused, seen.guarded)
	report.Add("  their contexts   had not ended %d times when Valid was false already", seen.untold)
	assert.True(t, shown(), "too few of them held their locks when they were stopped")
}

// raise stops a process, lets another take its locks and write, and lets it go on.
func (c *company) raise(ctx context.Context, t testing.TB, p *process, tokens map[string]uint64, seen *zombies) {
	time.Sleep(rand.N(ttl))
	p.stop(t)
	stopped := time.Now()
	heirs := c.inherit(ctx, t, tokens)
	wrote := map[string]time.Time{}
	for key, heir := range heirs {
		ok, err := write(ctx, c.rdb, key, heir.held.Token())
		assert.NoError(t, err)
		assert.True(t, ok, "%s: the token of its holder was refused", key)
		wrote[key] = time.Now()
	}
	time.Sleep(time.Until(stopped.Add(ttl + rand.N(2*ttl))))
	resumed := time.Now()
	p.resume(t)
	var said awake
	p.hear(t, &said)
	p.kill()
	for key, u := range said.Leases {
		heir, ok := heirs[key]
		if !ok {
			continue
		}
		assert.Less(t, u.Valid, heir.got.UnixNano(), "%s: a zombie found itself valid after another had got the lock", key)
		assert.Less(t, u.Written, wrote[key].UnixNano(), "%s: a stale write was accepted", key)
		assert.Zero(t, u.Revivals, key)
		assert.True(t, u.WasLoss, "%s: its context ended for another reason: %s", key, u.Cause)
		assert.Less(t, u.Told, resumed.Add(patience/10).UnixNano(), "%s: was told so long after", key)
		if u.Told > resumed.UnixNano() { // or else it was lost before, and this is no zombie
			assert.Positive(t, u.Refused, key)
			seen.add(u, resumed)
		}
	}
}
