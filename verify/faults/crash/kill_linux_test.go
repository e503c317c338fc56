package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

const ttl = 600 * time.Millisecond

// group is a number of child processes, and a client that contends for their locks.
type group struct {
	rdb       *redis.Client
	contender *lock.Client
	processes []*process
	tokens    []map[string]uint64 // tokens of each process
}

// startGroup starts processes with separate keys and waits until they hold their locks.
func startGroup(t testing.TB, s *testredis.Server, role, name string, processes, keys int, env ...string) *group {
	t.Helper()
	c := &group{rdb: s.Client(t)}
	for i := range processes {
		o := order{Role: role, Addr: s.Addr(), TTL: ttl}
		for j := range keys {
			o.Keys = append(o.Keys, fmt.Sprint(name, " ", i, " ", j))
		}
		c.processes = append(c.processes, start(t, o, env...))
	}
	for _, p := range c.processes {
		var said lockedReport
		p.receive(t, &said)
		c.tokens = append(c.tokens, said.Tokens)
	}
	var err error
	c.contender, err = connect(c.rdb, &lock.Options{Terms: lock.Terms{TTL: ttl}})
	require.NoError(t, err)
	return c
}

// takeover is a lock that the contender acquired.
type takeover struct {
	got  time.Time
	held *lock.Held
}

// takeOver acquires all locks of a process with the contender.
func (c *group) takeOver(ctx context.Context, t testing.TB, keys map[string]uint64) map[string]takeover {
	out := map[string]takeover{}
	var mu sync.Mutex // guards out
	var work sync.WaitGroup
	for key := range keys {
		work.Go(func() {
			held, err := c.contender.Mutex(key).Lock(ctx)
			for err != nil && ctx.Err() == nil { // on a busy machine the server may answer late
				held, err = c.contender.Mutex(key).Lock(ctx)
			}
			got := time.Now()
			if assert.NoError(t, err) {
				mu.Lock()
				defer mu.Unlock()
				out[key] = takeover{got, held}
			}
		})
	}
	work.Wait()
	return out
}

func (c *group) close(ctx context.Context, t testing.TB) {
	assert.NoError(t, c.contender.Close(ctx))
}

// delays are the times from the expiry of locks to their next acquisition.
type delays struct {
	first  durations // of the first in the queue
	behind durations // of waiters behind a killed waiter
}

// TestKilledHolders kills holders. The contender gets each lock when its last renewal has
// expired, not earlier and not much later, whether it waited before or asks later.
func TestKilledHolders(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	const processes, keys = 5, 4
	n := rounds(2, 100)
	var late delays
	seen := func() bool { return late.first.len()+late.behind.len() >= n*processes*keys/4 }
	played := playRounds(n, seen, func(round int) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		c := startGroup(t, server, holder, fmt.Sprint("killed ", round), processes, keys)
		var work sync.WaitGroup
		for i, p := range c.processes {
			work.Go(func() { c.killAndTakeOver(ctx, t, p, c.tokens[i], i%2 == 0, &late) })
		}
		work.Wait()
		c.close(ctx, t)
	})
	report.Add("killed holders     %d processes; time from expiry to the next holder: %v", played*processes, &late.first)
	report.Add("  with a waiter    that was first in the queue: %v", &late.behind)
	assert.True(t, seen(), "too few processes held their locks when they were killed")
}

// killAndTakeOver kills a process and acquires its locks. The contender waits before the
// kill or asks after it.
func (c *group) killAndTakeOver(ctx context.Context, t testing.TB, p *process, tokens map[string]uint64, before bool, late *delays) {
	var takeovers map[string]takeover
	var waiting sync.WaitGroup
	contend := func() { waiting.Go(func() { takeovers = c.takeOver(ctx, t, tokens) }) }
	if before {
		contend()
	}
	time.Sleep(rand.N(ttl))
	p.kill()
	time.Sleep(20 * time.Millisecond) // the server executes its last requests
	expires := expiries(t, c.rdb, tokens)
	gone := time.Now()
	if !before {
		contend()
	}
	waiting.Wait()
	for key, next := range takeovers {
		end, ok := expires[key]
		if !ok {
			continue // it had expired before
		}
		by := next.got.Sub(end)
		assert.False(t, end.After(gone.Add(ttl)), "%s was renewed after the kill", key)
		assert.GreaterOrEqual(t, by, time.Duration(0), "%s was acquired before its expiry", key)
		assert.Less(t, by, ttl/100+timeout/10, "%s was acquired late after its expiry", key)
		assert.Greater(t, next.held.Token(), tokens[key])
		if hasWaiter(key) {
			late.behind.add(by)
		} else {
			late.first.add(by)
		}
	}
}
