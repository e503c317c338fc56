// Cases of Watch: holders that learn that others wait.

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

// yielding returns r as the client sends it for terms that yield.
func yielding(r driver.Request) driver.Request {
	attrs := driver.Attrs{}
	if r.Attrs != nil {
		attrs = *r.Attrs
	}
	attrs.Yields = true
	r.Attrs = &attrs
	return r
}

// watch watches a lease. The channel gets a value when others wait for the lock.
func (f *fixture) watch(l driver.Lease) <-chan struct{} {
	told := make(chan struct{}, 1000)
	stop := f.store.Watch(l, func() {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	require.NotNil(f, stop)
	f.Cleanup(stop)
	return told
}

// asked expects that a holder is notified, by a message or by one of its renewals.
func (f *fixture) asked(l driver.Lease, told <-chan struct{}) {
	f.Helper()
	for end := time.Now().Add(f.patience()); time.Now().Before(end); {
		select {
		case <-told:
			return
		case <-time.After(time.Second):
			require.Equal(f, []outcome{renewed}, f.renew(l))
		}
	}
	require.Fail(f, "the holder was not told that others wait")
}

// notAsked expects that a holder is not notified by anything that has happened so far.
func (f *fixture) notAsked(l driver.Lease, told <-chan struct{}) {
	f.Helper()
	require.Equal(f, []outcome{renewed}, f.renew(l))
	time.Sleep(100 * time.Millisecond)
	assert.Empty(f, told)
}

// yielders returns the modes in which holders are notified.
func (f *fixture) yielders() []driver.Mode {
	return slices.DeleteFunc(f.allModes(), func(m driver.Mode) bool { return !f.can.Yields.Has(m) })
}

var wanting = []testCase{
	{name: "a_store_tells_holders_in_the_modes_that_it_says", needs: needsWaiting, run: func(f *fixture) {
		assert.Equal(f, f.can.Yields != 0, f.can.Yields.Has(driver.Exclusive), "Description.Yields")
		for _, mode := range f.allModes() {
			l := f.acquire(yielding(f.any(mode, mode.String())))
			told := f.watch(l)
			f.notAsked(l, told)
			c := f.waitFor(yielding(f.against(mode, mode.String())))
			if f.can.Yields.Has(mode) {
				f.asked(l, told)
			} else {
				f.notAsked(l, told)
			}
			f.release(l)
			next := c.get()
			f.notAsked(next, f.watch(next))
			f.release(next)
		}
	}},
	{name: "a_holder_learns_of_those_who_waited_before", needs: needsYielders, run: func(f *fixture) {
		for _, mode := range f.yielders() {
			first := f.acquire(yielding(f.any(mode, mode.String())))
			c := f.waitFor(yielding(f.against(mode, mode.String())))
			f.asked(first, f.watch(first))
			last := f.waitFor(f.any(mode, mode.String()))
			f.release(first)
			c, last = f.race(c, last) // a store without order serves either
			second := c.get()
			f.asked(second, f.watch(second))
			f.release(second)
			f.release(last.get())
		}
	}},
	{name: "each_reader_is_asked", needs: both(needsYielders, needsModes(driver.Read, driver.Write)), run: func(f *fixture) {
		if !f.can.Yields.Has(driver.Read) {
			return
		}
		a, b := f.acquire(yielding(f.read("k"))), f.acquire(yielding(f.read("k")))
		toldA, toldB := f.watch(a), f.watch(b)
		c := f.waitFor(f.write("k"))
		f.asked(a, toldA)
		f.asked(b, toldB)
		f.release(a, b)
		f.release(c.get())
	}},
	{name: "the_handle_of_a_lock_that_yields", run: func(f *fixture) {
		other := f.newClient().Mutex(f.prefix + "k")
		yields := f.newClient().With(lock.Terms{Yields: true})
		if f.can.Yields == 0 {
			_, err := yields.Mutex(f.prefix + "k").Lock(f.ctx)
			require.ErrorIs(f, err, errors.ErrUnsupported)
			_, err = lock.New(keptOpen{f.store}, &lock.Options{Terms: lock.Terms{TTL: f.TTL, Yields: true}})
			require.ErrorIs(f, err, errors.ErrUnsupported)
			return
		}
		h := f.lock(yields.Mutex(f.prefix + "k"))
		got := f.lockAsync(other)
		select {
		case <-h.Wanted():
		case <-time.After(f.patience()):
			require.Fail(f, "the holder was not told that others wait")
		}
		require.NoError(f, h.Unlock(f.ctx))
		require.NoError(f, f.awaitLock(got).Unlock(f.ctx))
	}},
}

func needsYielders(c Config) bool { return c.Waiting != nil && c.can.Yields != 0 }
