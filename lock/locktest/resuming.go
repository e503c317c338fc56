// Cases of driver.Exporter and driver.Resumer.

package locktest

import (
	"errors"
	"slices"
	"strconv"
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
		if _, err := withoutClose(f.store).Export(probe); errors.Is(err, errors.ErrUnsupported) {
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
	{name: "H1_a_resumed_lock_is_kept_after_its_release", run: ifKeeps(exporting(func(f *fixture, _ []lock.Locker, other *lock.Client) {
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
		resumer := withoutClose(f.store)
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
	{name: "S1_a_string_is_no_right_to_what_its_handle_has_given_up", needs: needsModes(driver.Read, driver.Write), run: exporting(func(f *fixture, _ []lock.Locker, other *lock.Client) {
		c := f.newClient()
		for i, end := range []func(h *lock.Held) error{(*lock.Held).Err, (*lock.Held).Detach, (*lock.Held).Detach} {
			rw := c.RWMutex(f.prefix + strconv.Itoa(i))
			w := f.lock(rw)
			writer, err := w.Export()
			require.NoError(f, err)
			if i == 2 { // the string outlives a Resume
				again, err := other.Resume(f.ctx, writer)
				require.NoError(f, err)
				require.NoError(f, again.Detach())
			}
			r, err := rw.Downgrade(f.ctx, w)
			require.NoError(f, err)
			reader, err := r.Export()
			require.NoError(f, err)
			require.NoError(f, end(r))
			second := f.lock(rw.RLocker())
			_, err = other.Resume(f.ctx, writer)
			require.ErrorIs(f, err, lock.ErrNotHeld, "a reader is no writer")
			resumed, err := other.Resume(f.ctx, reader)
			require.NoError(f, err)
			assert.Equal(f, w.Token(), resumed.Token())
			third := f.lock(rw.RLocker())
			require.NoError(f, second.Err())
			for _, h := range []*lock.Held{resumed, second, third} {
				require.NoError(f, h.Unlock(f.ctx))
			}
			require.NoError(f, f.lock(rw).Unlock(f.ctx))
		}
	})},
	{name: "S1_a_lease_is_resumed_as_what_the_store_has", needs: needsModes(driver.Read, driver.Write), run: exporting(func(f *fixture, _ []lock.Locker, _ *lock.Client) {
		resumer := withoutClose(f.store)
		resume := func(l driver.Lease, change func(l *driver.Lease)) error {
			bare := driver.Lease{Request: l.Request, Token: l.Token}
			change(&bare)
			imported, err := f.store.(driver.Exporter).Import(bare, nil)
			require.NoError(f, err)
			_, err = resumer.Resume(f.ctx, imported)
			return err
		}
		as := func(m driver.Mode) func(l *driver.Lease) { return func(l *driver.Lease) { l.Mode = m } }
		with := func(a driver.Attrs) func(l *driver.Lease) { return func(l *driver.Lease) { l.Attrs = &a } }

		w := f.acquire(f.write("k"))
		require.NoError(f, resume(w, as(driver.Write)))
		require.NoError(f, resume(w, as(driver.Read)), "a writer may read")
		turned := w.Request
		turned.Mode = driver.Read
		r := f.acquire(turned)
		require.ErrorIs(f, resume(w, as(driver.Write)), driver.ErrNotHeld)
		require.NoError(f, resume(r, as(driver.Read)))
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(r, w), "renewals claim nothing")

		for _, mode := range f.Modes {
			switch mode {
			case driver.Permit:
				p := f.acquire(f.permits("p", 3, 2))
				require.NoError(f, resume(p, as(driver.Permit)))
				require.ErrorIs(f, resume(p, with(driver.Attrs{Limit: 3, Permits: 3})), driver.ErrNotHeld)
				require.ErrorIs(f, resume(p, as(driver.Read)), driver.ErrNotHeld)
			case driver.Members:
				b := f.acquire(f.batch("b", "x", "y"))
				require.NoError(f, resume(b, as(driver.Members)))
				require.ErrorIs(f, resume(b, with(driver.Attrs{Members: []string{"x", "y", "z"}})), driver.ErrNotHeld)
			}
		}
	})},
	{name: "what_changes_a_handle_leaves_its_string_of_use", run: exporting(func(f *fixture, _ []lock.Locker, other *lock.Client) {
		c := f.newClient()
		h := f.lock(c.Mutex(f.prefix + "k"))
		secret, err := h.Export()
		require.NoError(f, err)
		longer := f.TTL + f.TTL/2
		if f.limits.Check(longer) == nil {
			require.NoError(f, h.Renew(f.ctx, longer))
		}
		for range 2 {
			r, err := other.Resume(f.ctx, secret)
			require.NoError(f, err)
			assert.Equal(f, h.Token(), r.Token())
			require.NoError(f, r.Detach())
			require.ErrorIs(f, r.Detach(), lock.ErrDetached)
		}
		require.NoError(f, h.Detach())
		last, err := other.Resume(f.ctx, secret)
		require.NoError(f, err)
		require.NoError(f, last.Unlock(f.ctx))
		_, err = other.Resume(f.ctx, secret)
		require.ErrorIs(f, err, lock.ErrNotHeld)

		election := c.Election(f.prefix+"election", "old")
		leader, err := election.Campaign(f.ctx)
		require.NoError(f, err)
		secret, err = leader.Export()
		require.NoError(f, err)
		if err := election.Proclaim(f.ctx, leader, "new"); !errors.Is(err, errors.ErrUnsupported) {
			require.NoError(f, err)
		}
		r, err := other.Resume(f.ctx, secret)
		require.NoError(f, err)
		assert.Equal(f, leader.Token(), r.Token())
		require.NoError(f, r.Unlock(f.ctx))
	})},
	{name: "H1_a_string_does_not_shorten_a_MinHold", run: ifKeeps(exporting(func(f *fixture, _ []lock.Locker, other *lock.Client) {
		c := f.newClient().With(lock.Terms{MinHold: f.TTL})
		locks := map[driver.Mode]lock.Locker{driver.Exclusive: c.Mutex(f.prefix + driver.Exclusive.String())}
		if slices.Contains(f.keptModes(), driver.Members) {
			locks[driver.Members] = c.Batch(f.prefix+driver.Members.String(), "a", "b")
		}
		for mode, l := range locks {
			h := f.lock(l)
			secret, err := h.Export()
			require.NoError(f, err)
			require.NoError(f, h.Unlock(f.ctx))
			_, err = other.Resume(f.ctx, secret)
			require.ErrorIs(f, err, lock.ErrNotHeld, mode)
			assert.Greater(f, f.left(f.against(mode, mode.String())), f.TTL/2, mode)
		}
	}))},
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
