package locktest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// kinds are the locks of a client that stand on the modes.
var kinds = []testCase{
	{name: "readers_and_a_writer_that_joins_them", ends: true, needs: needsModes(lock.Read, lock.Write), run: func(f *fixture) {
		mine, other := f.newClient().RWMutex(f.prefix+"k"), f.newClient().RWMutex(f.prefix+"k")
		w := f.lock(mine)
		got := f.later(other.RLocker())
		time.Sleep(f.TTL * 5 / 4) // renewed all the while
		assert.Empty(f, got)
		r, err := mine.Downgrade(f.ctx, w)
		require.NoError(f, err)
		assert.Equal(f, w.Token(), r.Token())
		h := f.got(got)
		f.rises(r.Token(), h.Token())
		time.Sleep(f.TTL * 5 / 4)
		assert.True(f, r.Valid())
		assert.True(f, h.Valid())
		f.refused(f.write("k"))
		next := f.later(other)
		require.NoError(f, h.Unlock(f.ctx))
		require.NoError(f, r.Unlock(f.ctx))
		require.NoError(f, f.got(next).Unlock(f.ctx))
		f.acquire(f.write("k"))
	}},
	{name: "S7_a_batch_is_entered_again", ends: true, needs: needsModes(lock.Members), run: func(f *fixture) {
		c := f.newClient()
		names := make([]string, 1000)
		for i := range names {
			names[i] = fmt.Sprint("member ", i)
		}
		outer := f.lock(c.Batch(f.prefix+"g", names...))
		inner, err := c.Batch(f.prefix+"g", names[7], names[700]).Lock(f.inside(outer))
		require.NoError(f, err)
		assert.Equal(f, outer.Token(), inner.Token())
		require.NoError(f, outer.Unlock(f.ctx))
		time.Sleep(f.TTL * 5 / 4)
		assert.True(f, inner.Valid())
		f.refused(f.batch("g", names[999])) // as a whole
		f.acquire(f.batch("g", "another"))
		require.NoError(f, inner.Unlock(f.ctx))
		f.acquire(f.batch("g", names[999]))
	}},
	{name: "S5_a_lost_batch_is_not_entered_again", ends: true, needs: both(needsModes(lock.Members), needsDelete), run: func(f *fixture) {
		b := f.newClient().Batch(f.prefix+"g", "a", "b")
		h := f.lock(b)
		inside := f.inside(h)
		f.Delete(f.T, f.store, f.prefix+"g")
		f.ended(h)
		_, err := b.Lock(inside)
		require.ErrorIs(f, err, lock.ErrLost)
		require.ErrorIs(f, h.Unlock(f.ctx), lock.ErrLost)
		f.acquire(f.batch("g", "a"))
	}},
	{name: "S8_several_locks_of_all_kinds", ends: true, needs: needsModes(AllModes...), run: func(f *fixture) {
		c := f.newClient()
		all := lock.Multi(c.Mutex(f.prefix+"m"), c.RWMutex(f.prefix+"rw"), c.RWMutex(f.prefix+"r").RLocker(),
			c.Semaphore(f.prefix+"s", 1), c.Batch(f.prefix+"g", "a", "b"), c.Batch(f.prefix+"g", "c"))
		h := f.lock(all)
		time.Sleep(f.TTL * 5 / 4)
		assert.True(f, h.Valid())
		against := []lock.Request{f.request("m"), f.read("rw"), f.write("r"), f.permit("s", 1), f.batch("g", "b"), f.batch("g", "c")}
		for _, r := range against {
			f.refused(r)
		}
		require.NoError(f, h.Unlock(f.ctx))
		var leases []lock.Lease
		for _, r := range against {
			leases = append(leases, f.acquire(r))
		}
		f.release(leases[:5]...)
		_, err := all.TryLock(f.ctx)
		require.ErrorIs(f, err, lock.ErrNotAcquired)
		for _, r := range against[:5] { // none was kept, of all that were free
			f.acquire(r)
		}
	}},
	{name: "S1_S3_many_hold_locks_of_all_kinds", needs: needsModes(AllModes...), run: func(f *fixture) {
		const clients, rounds = 4, 12
		checker := NewConflicts()
		var wg sync.WaitGroup
		for range clients {
			c := f.newClient()
			for i := range 4 {
				wg.Go(func() {
					for round := range rounds {
						f.holdKind(checker, c, i+round)
					}
				})
			}
		}
		wg.Wait()
		assert.Empty(f, checker.Violations())
		for _, mode := range AllModes {
			assert.Positive(f, checker.Entered(mode), mode)
		}
	}},
}

// holdKind holds a lock of one of the kinds for a moment; a writer as a reader
// afterwards.
func (f *fixture) holdKind(c *Conflicts, client *lock.Client, i int) {
	rw := client.RWMutex(f.prefix + "rw")
	var l lock.Locker
	r := lock.Request{}
	switch i % 5 {
	case 0:
		l, r = rw, f.write("rw")
	case 1, 2:
		l, r = rw.RLocker(), f.read("rw")
	case 3:
		l, r = client.Semaphore(f.prefix+"s", 2), f.permit("s", 2)
	case 4:
		names := []string{"a", "b", "c", "d"}
		names = names[i/5%3 : i/5%3+2]
		l, r = client.Batch(f.prefix+"g", names...), f.batch("g", slices.Clone(names)...)
	}
	h, err := l.Lock(f.ctx)
	if !assert.NoError(f, err) {
		return
	}
	lease := lock.Lease{Request: r, Token: h.Token()}
	c.Enter(lease)
	time.Sleep(time.Millisecond)
	assert.True(f, h.Valid())
	c.Leave(lease)
	if r.Mode == lock.Write {
		if h, err = rw.Downgrade(f.ctx, h); !assert.NoError(f, err) {
			return
		}
	}
	assert.NoError(f, h.Unlock(f.ctx))
}
