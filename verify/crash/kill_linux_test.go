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

// company are processes that are ended together, and a client of this one that wants
// what they have.
type company struct {
	rdb       *redis.Client
	contender *lock.Client
	processes []*process
	tokens    []map[string]uint64 // of each process
}

// assemble starts processes with keys of their own and waits until they hold them.
func assemble(t testing.TB, s *testredis.Server, role, name string, processes, keys int, env ...string) *company {
	t.Helper()
	c := &company{rdb: s.Client(t)}
	for i := range processes {
		o := order{Role: role, Addr: s.Addr(), TTL: ttl}
		for j := range keys {
			o.Keys = append(o.Keys, fmt.Sprint(name, " ", i, " ", j))
		}
		c.processes = append(c.processes, start(t, o, env...))
	}
	for _, p := range c.processes {
		var said holding
		p.hear(t, &said)
		c.tokens = append(c.tokens, said.Tokens)
	}
	var err error
	c.contender, err = connect(c.rdb, &lock.Options{Terms: lock.Terms{TTL: ttl}})
	require.NoError(t, err)
	return c
}

// inheritance is a lock that the contender got.
type inheritance struct {
	got  time.Time
	held *lock.Held
}

// inherit has the contender get all locks of a process.
func (c *company) inherit(ctx context.Context, t testing.TB, keys map[string]uint64) map[string]inheritance {
	out := map[string]inheritance{}
	var mu sync.Mutex // guards out
	var work sync.WaitGroup
	for key := range keys {
		work.Go(func() {
			held, err := c.contender.Mutex(key).Lock(ctx)
			for err != nil && ctx.Err() == nil { // a busy machine lets the server answer late
				held, err = c.contender.Mutex(key).Lock(ctx)
			}
			got := time.Now()
			if assert.NoError(t, err) {
				mu.Lock()
				defer mu.Unlock()
				out[key] = inheritance{got, held}
			}
		})
	}
	work.Wait()
	return out
}

func (c *company) close(ctx context.Context, t testing.TB) {
	assert.NoError(t, c.contender.Close(ctx))
}

// afterwards is when locks of the dead were had by others, counted from their end.
type afterwards struct {
	first  times // in the queue
	behind times // one who waited for the lock and was killed too
}

// Whoever wants the lock of a holder that was killed has it when its last renewal has
// worn off: not before, and not much later, whether it waited already or comes then.
func TestKilledHolders(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	const processes, keys = 5, 4
	n := rounds(2, 100)
	var late afterwards
	seen := func() bool { return late.first.len()+late.behind.len() >= n*processes*keys/4 }
	played := enough(n, seen, func(round int) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c := assemble(t, server, holder, fmt.Sprint("killed ", round), processes, keys)
		var work sync.WaitGroup
		for i, p := range c.processes {
			work.Go(func() { c.bury(ctx, t, p, c.tokens[i], i%2 == 0, &late) })
		}
		work.Wait()
		c.close(ctx, t)
	})
	report.Add("killed holders     %d processes; the next has the lock after its end by: %v", played*processes, &late.first)
	report.Add("  with a waiter    who was first in the queue: %v", &late.behind)
	assert.True(t, seen(), "too few of them held their locks when they were killed")
}

// bury kills a process and has another get its locks, which comes before or after.
func (c *company) bury(ctx context.Context, t testing.TB, p *process, tokens map[string]uint64, before bool, late *afterwards) {
	var heirs map[string]inheritance
	var waiting sync.WaitGroup
	inherit := func() { waiting.Go(func() { heirs = c.inherit(ctx, t, tokens) }) }
	if before {
		inherit()
	}
	time.Sleep(rand.N(ttl))
	p.kill()
	time.Sleep(20 * time.Millisecond) // what it had sent is executed
	ends := ends(t, c.rdb, tokens)
	gone := time.Now()
	if !before {
		inherit()
	}
	waiting.Wait()
	for key, heir := range heirs {
		end, ok := ends[key]
		if !ok {
			continue // it was over before
		}
		by := heir.got.Sub(end)
		assert.False(t, end.After(gone.Add(ttl)), "%s was renewed by the dead", key)
		assert.GreaterOrEqual(t, by, time.Duration(0), "%s was got before its end", key)
		assert.Less(t, by, ttl/100+patience/10, "%s was got so long after its end", key)
		assert.Greater(t, heir.held.Token(), tokens[key])
		if waitedFor(key) {
			late.behind.add(by)
		} else {
			late.first.add(by)
		}
	}
}
