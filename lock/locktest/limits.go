// Cases of driver.TTLLimits.

package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// ttlLimits has the cases of driver.TTLLimits.
var ttlLimits = []testCase{
	{name: "a_TTL_outside_the_limits_is_refused", run: func(f *fixture) {
		for _, bound := range f.bounds() {
			require.NoError(f, f.limits.Check(bound.in))
			require.ErrorIs(f, f.limits.Check(bound.out), driver.ErrBadTTL)
			for _, mode := range f.allModes() {
				r := f.any(mode, mode.String())
				r.TTL = bound.out
				_, err := f.store.Acquire(f.ctx, r)
				f.badTTL(err, r)
				if f.Waiting != nil {
					_, err = f.store.Wait(f.ctx, r, func() {})
					f.badTTL(err, r)
				}
				f.release(f.acquire(f.lasting(f.any(mode, mode.String()), bound.in)))
			}
		}
	}},
	{name: "the_client_refuses_a_TTL_outside_the_limits", run: func(f *fixture) {
		c := f.newClient()
		h := f.lock(c.Mutex(f.prefix + "k"))
		for _, bound := range f.bounds() {
			if bound.out < driver.MinTTL || bound.out > driver.MaxTTL {
				continue // the client refuses it for any store
			}
			_, err := lock.New(keptOpen{f.store}, &lock.Options{Terms: lock.Terms{TTL: bound.out}})
			require.ErrorIs(f, err, driver.ErrBadTTL)
			_, err = c.With(lock.Terms{TTL: bound.out}).Mutex(f.prefix + "other").TryLock(f.ctx)
			require.ErrorIs(f, err, driver.ErrBadTTL)
			require.ErrorIs(f, h.Renew(f.ctx, bound.out), driver.ErrBadTTL)
			assert.True(f, h.Valid())
		}
		require.NoError(f, h.Unlock(f.ctx))
	}},
	{name: "L2_a_TTL_between_two_steps_lasts", ends: true, run: func(f *fixture) {
		step := f.limits.Step
		if step == 0 {
			return // a_TTL_is_of_milliseconds tests it
		}
		atLeast := max(f.limits.Min, driver.MinTTL)
		ttl := f.accepted(atLeast + (step-atLeast%step)%step + step/2)
		l := f.acquire(f.lasting(f.request("k"), ttl))
		f.lasts(l, step/10)
		f.renewAndLast(l, step/10)
	}},
	{name: "S1_a_lease_of_an_old_session_lasts_its_TTL", ends: true, run: func(f *fixture) {
		f.acquire(f.request("first"))
		time.Sleep(f.TTL * 3 / 10) // stores that renew an older session may do that in time
		start := time.Now()
		l := f.acquire(f.request("k"))
		f.fresh(l, start)
		f.lasts(l, f.TTL/10)
		again := f.acquire(f.request("again"))
		time.Sleep(f.TTL * 3 / 10) // stores that renew an older session may do that in time
		f.renewAndLast(again, f.TTL/10)
	}},
	{name: "L2_a_lease_ends_while_others_are_renewed", ends: true, run: func(f *fixture) {
		for _, mode := range f.allModes() {
			f.acquire(f.any(mode, mode.String()))
		}
		other, got := f.acquire(f.request("other")), time.Now()
		f.outlast(got, other)
		for _, mode := range f.allModes() {
			f.acquire(f.against(mode, mode.String()))
		}
		assert.Equal(f, []outcome{renewed}, f.renew(other))
	}},
}

// bound is a TTL at a limit, and one just beyond it.
type bound struct{ in, out time.Duration }

func (f *fixture) bounds() []bound {
	var all []bound
	if f.limits.Min > 0 {
		all = append(all, bound{f.limits.Min, f.limits.Min - time.Millisecond})
	}
	if f.limits.Max > 0 {
		all = append(all, bound{f.limits.Max, f.limits.Max + time.Millisecond})
	}
	if len(all) == 0 {
		f.Log("the store accepts all TTLs")
	}
	return all
}

// badTTL expects the refusal of a TTL.
func (f *fixture) badTTL(err error, r driver.Request) {
	f.Helper()
	require.ErrorIs(f, err, driver.ErrBadTTL, r)
	require.NotErrorIs(f, err, driver.ErrNotAcquired, r)
}

// fresh expects that at least half of the TTL was left of a lease when it was requested. Without
// limits, the whole TTL must be left.
func (f *fixture) fresh(l driver.Lease, requested time.Time) {
	f.Helper()
	age := requested.Sub(l.Sent)
	if f.limits == (driver.TTLLimits{}) {
		assert.LessOrEqual(f, age, time.Duration(0), "the lease starts with its full TTL")
	}
	assert.LessOrEqual(f, age, f.TTL/2, "the lease starts with half of its TTL at least")
}

// lasts expects that a lease is held until a short time before Sent + TTL. It asks once only,
// because a request of the same store may renew the session.
func (f *fixture) lasts(l driver.Lease, before time.Duration) {
	f.Helper()
	end := l.Sent.Add(l.TTL)
	time.Sleep(time.Until(end.Add(-before)))
	r := f.request("")
	r.Key = l.Key
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	_, err := f.store.Acquire(ctx, r)
	if !time.Now().Before(end) {
		f.Log("the machine was too busy to ask in time")
		return
	}
	require.ErrorIs(f, err, driver.ErrNotAcquired, "the lease must last until Sent + TTL")
}

// renewAndLast renews a lease, if it still can, and expects that it lasts one TTL from the call.
func (f *fixture) renewAndLast(l driver.Lease, before time.Duration) {
	f.Helper()
	sent := time.Now()
	if f.renew(l)[0] != renewed {
		require.False(f, time.Now().Before(l.Sent.Add(l.TTL)), "the lease is lost before its end")
		return
	}
	l.Sent = sent
	f.lasts(l, before)
}
