package locktest

import (
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// exporting wraps a case so that it is skipped for a store that is no driver.Exporter. The case
// gets the locks of all modes, and a client that resumes them: of another store on the same
// data, if there is one.
func exporting(run func(f *fixture, locks []lock.Locker, other *lock.Client)) func(f *fixture) {
	return func(f *fixture) {
		probe := f.acquire(f.request("probe"))
		if _, err := withoutClose(f.store).(driver.Exporter).Export(probe); errors.Is(err, errors.ErrUnsupported) {
			f.Log("skipped: the store is no driver.Exporter")
			return
		}
		f.release(probe)
		c := f.newClient()
		locks := []lock.Locker{c.With(lock.Terms{Metadata: "m\x00"}).Mutex(f.prefix + "exclusive")}
		for _, mode := range f.Modes {
			key := f.prefix + mode.String()
			switch mode {
			case driver.Read:
				locks = append(locks, c.RWMutex(key).RLocker())
			case driver.Write:
				locks = append(locks, c.RWMutex(key))
			case driver.Permit:
				locks = append(locks, c.Semaphore(key, 3).WithPermits(2))
			case driver.Members:
				locks = append(locks, c.Batch(key, "x", "y", "\n"))
			}
		}
		other := f.store
		if f.Another != nil {
			other = f.Another(f.T, f.store)
		}
		run(f, locks, f.clientOf(other))
	}
}

var resuming = []testCase{
	{name: "a_lease_is_resumed", ends: true, run: exporting(func(f *fixture, locks []lock.Locker, other *lock.Client) {
		var resumed []*lock.Held
		for _, l := range locks {
			h := f.lock(l)
			secret, err := h.Export()
			require.NoError(f, err)
			r, err := other.Resume(f.ctx, secret)
			require.NoError(f, err, l)
			assert.Equal(f, h.Token(), r.Token())
			require.NoError(f, h.Detach())
			resumed = append(resumed, r)
		}
		time.Sleep(2 * f.TTL)
		for i, r := range resumed {
			require.NoError(f, r.Err(), "the other client renews %v", locks[i])
			require.NoError(f, r.Unlock(f.ctx), locks[i])
			next := f.lock(locks[i])
			f.rises(r.Token(), next.Token())
			require.NoError(f, next.Unlock(f.ctx))
		}
	})},
	{name: "a_lease_that_is_not_held_is_not_resumed", run: exporting(func(f *fixture, locks []lock.Locker, other *lock.Client) {
		for _, l := range locks {
			h := f.lock(l)
			secret, err := h.Export()
			require.NoError(f, err)
			require.NoError(f, h.Unlock(f.ctx))
			_, err = other.Resume(f.ctx, secret)
			require.ErrorIs(f, err, lock.ErrNotHeld, l)
			next := f.lock(l) // Resume has taken nothing
			_, err = other.Resume(f.ctx, secret)
			require.ErrorIs(f, err, lock.ErrNotHeld, l)
			require.NoError(f, next.Unlock(f.ctx))
		}
	})},
	{name: "one_unlock_ends_a_lease_of_two_holders", run: exporting(func(f *fixture, locks []lock.Locker, other *lock.Client) {
		for i, l := range locks {
			h := f.lock(l)
			secret, err := h.Export()
			require.NoError(f, err)
			r, err := other.Resume(f.ctx, secret)
			require.NoError(f, err, l)
			first, second := h, r
			if i%2 == 1 {
				first, second = r, h
			}
			require.NoError(f, first.Unlock(f.ctx), l)
			next := f.lock(l)
			require.ErrorIs(f, second.Unlock(f.ctx), lock.ErrLost, l)
			require.NoError(f, next.Renew(f.ctx, 0), l)
			require.NoError(f, next.Unlock(f.ctx))
		}
	})},
	{name: "H1_a_resumed_lock_is_kept_after_its_release", run: ifKeeper(exporting(func(f *fixture, _ []lock.Locker, other *lock.Client) {
		long, none := lock.Terms{MinHold: 2 * f.TTL}, lock.Terms{MinHold: lock.NoMinHold}
		for name, terms := range map[string]struct{ exporter, resumer lock.Terms }{"exporter": {long, none}, "resumer": {none, long}} {
			c := f.newClient().With(terms.exporter)
			locks := map[driver.Mode]lock.Locker{driver.Exclusive: c.Mutex(f.prefix + driver.Exclusive.String() + name)}
			if slices.Contains(f.keptModes(), driver.Members) {
				locks[driver.Members] = c.Batch(f.prefix+driver.Members.String()+name, "a", "b")
			}
			for mode, l := range locks {
				h := f.lock(l)
				secret, err := h.Export()
				require.NoError(f, err)
				r, err := other.With(terms.resumer).Resume(f.ctx, secret)
				require.NoError(f, err)
				require.NoError(f, h.Detach())
				require.NoError(f, r.Unlock(f.ctx))
				left := f.left(f.against(mode, mode.String()+name))
				assert.LessOrEqual(f, left, 2*f.TTL+2*time.Millisecond, l)
				assert.Greater(f, left, f.TTL*3/2, l)
			}
		}
	}))},
	{name: "a_lease_that_is_resumed_is_that_of_its_exporter", run: exporting(func(f *fixture, _ []lock.Locker, _ *lock.Client) {
		resumer := withoutClose(f.store).(driver.Resumer)
		for _, mode := range f.allModes() {
			l := f.acquire(f.any(mode, mode.String()))
			bare := driver.Lease{Request: l.Request, Token: l.Token}
			state, err := f.store.(driver.Exporter).Export(l)
			require.NoError(f, err)
			imported, err := f.store.(driver.Exporter).Import(bare, state)
			require.NoError(f, err)
			began := time.Now()
			resumed, err := resumer.Resume(f.ctx, imported)
			if errors.Is(err, errors.ErrUnsupported) {
				f.Log("skipped: the store is no driver.Resumer")
				return
			}
			require.NoError(f, err, mode)
			assert.Equal(f, []any{l.Request, l.Token}, []any{resumed.Request, resumed.Token}, mode)
			assert.False(f, resumed.Sent.Before(began), mode)
			assert.Equal(f, []outcome{renewed, renewed}, f.renew(resumed, l), mode)
			require.NoError(f, f.store.Release(f.ctx, l))
			_, err = resumer.Resume(f.ctx, imported)
			require.ErrorIs(f, err, driver.ErrNotHeld, mode)
		}
	})},
	{name: "an_export_keeps_its_store", run: exporting(func(f *fixture, _ []lock.Locker, _ *lock.Client) {
		l := f.acquire(f.request("k"))
		exporter := f.store.(driver.Exporter)
		state, err := exporter.Export(l)
		require.NoError(f, err)
		assert.LessOrEqual(f, len(state), driver.MaxStateLen)
		_, err = exporter.Import(driver.Lease{Request: l.Request, Token: l.Token}, append(state, "more"...))
		require.Error(f, err)
		imported, err := exporter.Import(driver.Lease{Request: l.Request, Token: l.Token}, state)
		require.NoError(f, err)
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(imported, l), "a lease may be in a batch twice")
		require.NoError(f, f.store.Release(f.ctx, imported))
		assert.Equal(f, []outcome{lost, lost}, f.renew(imported, l))
	})},
}
