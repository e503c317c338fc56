// Cases of RWMutex, Semaphore, Batch and Multi.

package locktest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// kinds has cases of the client's locks that are based on the modes.
var kinds = []testCase{
	{name: "readers_and_a_writer_that_joins_them", ends: true, needs: needsModes(driver.Read, driver.Write), run: func(f *fixture) {
		mine, other := f.newClient().RWMutex(f.prefix+"k"), f.newClient().RWMutex(f.prefix+"k")
		w := f.lock(mine)
		got := f.lockAsync(other.RLocker())
		time.Sleep(f.TTL * 5 / 4) // the client renews the lease
		assert.Empty(f, got)
		r, err := mine.Downgrade(f.ctx, w)
		require.NoError(f, err)
		assert.Equal(f, w.Token(), r.Token())
		h := f.awaitLock(got)
		f.rises(r.Token(), h.Token())
		time.Sleep(f.TTL * 5 / 4)
		assert.True(f, r.Valid())
		assert.True(f, h.Valid())
		f.refused(f.write("k"))
		next := f.lockAsync(other)
		require.NoError(f, h.Unlock(f.ctx))
		require.NoError(f, r.Unlock(f.ctx))
		require.NoError(f, f.awaitLock(next).Unlock(f.ctx))
		f.acquire(f.write("k"))
	}},
	{name: "a_held_lock_gets_another_TTL", run: func(f *fixture) {
		longer := f.accepted(4 * f.TTL)
		h := f.lock(f.newClient().Mutex(f.prefix + "k"))
		require.NoError(f, h.Renew(f.ctx, longer))
		assert.Greater(f, time.Until(h.Deadline()), 3*f.TTL)
		assert.Greater(f, f.left(f.request("k")), 3*f.TTL)
		require.NoError(f, h.Renew(f.ctx, f.TTL))
		assert.Greater(f, time.Until(h.Deadline()), 3*f.TTL, "the deadline never moves back")
		require.NoError(f, h.Unlock(f.ctx))
		f.acquire(f.request("k"))
	}},
	{name: "S7_a_batch_is_entered_again", ends: true, needs: needsModes(driver.Members), run: func(f *fixture) {
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
		f.refused(f.batch("g", names[999])) // the whole batch is held
		f.acquire(f.batch("g", "another"))
		require.NoError(f, inner.Unlock(f.ctx))
		f.acquire(f.batch("g", names[999]))
	}},
	{name: "S5_a_lost_batch_is_not_entered_again", ends: true, needs: both(needsModes(driver.Members), needsDelete), run: func(f *fixture) {
		b := f.newClient().Batch(f.prefix+"g", "a", "b")
		h := f.lock(b)
		inside := f.inside(h)
		f.Delete(f.T, f.store, f.prefix+"g")
		f.ended(h)
		_, err := b.Lock(inside)
		require.ErrorIs(f, err, driver.ErrLost)
		require.ErrorIs(f, h.Unlock(f.ctx), driver.ErrLost)
		f.acquire(f.batch("g", "a"))
	}},
	{name: "S8_several_locks_of_all_kinds", ends: true, needs: needsModes(AllModes...), run: func(f *fixture) {
		c := f.newClient()
		all := lock.Multi(c.Mutex(f.prefix+"m"), c.RWMutex(f.prefix+"rw"), c.RWMutex(f.prefix+"r").RLocker(),
			c.Semaphore(f.prefix+"s", 1), c.Batch(f.prefix+"g", "a", "b"), c.Batch(f.prefix+"g", "c"))
		h := f.lock(all)
		time.Sleep(f.TTL * 5 / 4)
		assert.True(f, h.Valid())
		against := []driver.Request{f.request("m"), f.read("rw"), f.write("r"), f.permit("s", 1), f.batch("g", "b"), f.batch("g", "c")}
		for _, r := range against {
			f.refused(r)
		}
		require.NoError(f, h.Unlock(f.ctx))
		var leases []driver.Lease
		for _, r := range against {
			leases = append(leases, f.acquire(r))
		}
		f.release(leases[:5]...)
		_, err := all.TryLock(f.ctx)
		require.ErrorIs(f, err, driver.ErrNotAcquired)
		for _, r := range against[:5] { // no lock was kept when one was held
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

// holdKind holds a lock of one of the kinds for a moment. A writer becomes a reader
// before it unlocks.
func (f *fixture) holdKind(c *Conflicts, client *lock.Client, i int) {
	rw := client.RWMutex(f.prefix + "rw")
	var l lock.Locker
	r := driver.Request{}
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
	lease := driver.Lease{Request: r, Token: h.Token()}
	c.Enter(lease)
	time.Sleep(time.Millisecond)
	assert.True(f, h.Valid())
	c.Leave(lease)
	if r.Mode == driver.Write {
		if h, err = rw.Downgrade(f.ctx, h); !assert.NoError(f, err) {
			return
		}
	}
	assert.NoError(f, h.Unlock(f.ctx))
}
