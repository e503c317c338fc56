// Cases of Acquire, Renew and Release in mode Exclusive.

package locktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

var acquiring = []testCase{
	{name: "S1_a_lock_has_one_holder", run: func(f *fixture) {
		r := f.request("k")
		l := f.acquire(r)
		assert.Equal(f, f.Tokenless, l.Token == 0)
		held := f.heldByOther("k")
		assert.Equal(f, r.Key, held.Key)
		assert.Positive(f, held.ExpiresIn)
		assert.LessOrEqual(f, held.ExpiresIn, f.longest(f.TTL))
		f.acquire(f.request("other"))
	}},
	{name: "L2_a_lock_ends_with_its_TTL", ends: true, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		got := time.Now()
		f.sleepPast(l, 6)
		f.heldByOther("k")
		f.outlast(got)
		f.acquire(f.request("k"))
	}},
}

var renewing = []testCase{
	{name: "each_outcome_belongs_to_its_lease", run: func(f *fixture) {
		var batch []driver.Lease
		var want []outcome
		for i := range 1000 {
			r := f.request(fmt.Sprint(i))
			r.TTL = f.aMinute() - time.Duration(i%3)*f.aMinute()/20 // leases with different TTLs in one batch
			switch i % 7 {
			case 2: // no owner holds it
				batch = append(batch, driver.Lease{Request: r, Token: 1})
				want = append(want, lost)
			case 4: // another owner holds it
				l := f.acquire(r)
				l.Owner = "stranger"
				batch = append(batch, l)
				want = append(want, lost)
			default:
				batch = append(batch, f.acquire(r))
				want = append(want, renewed)
			}
			f.keep(batch)
		}
		before := slices.Clone(batch)
		for i, got := range f.renew(batch...) {
			require.Equal(f, want[i], got, "out[%d] must belong to batch[%d], of %d leases", i, i, len(batch))
			require.Equal(f, before[i].Request, batch[i].Request, "batch[%d]: Renew must not change the batch", i)
		}
	}},
	{name: "one_lease_twice_in_a_batch", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(l, l))
	}},
	{name: "an_empty_batch", run: func(f *fixture) {
		assert.NoError(f, f.store.Renew(f.ctx, nil, nil))
	}},
}

var releasing = []testCase{
	{name: "L4_a_release_does_not_need_the_token", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			l := f.acquire(f.any(mode, mode.String()))
			l.Token = 0 // its Acquire was answered too late or not at all
			require.NoError(f, f.store.Release(f.ctx, l), "%v: an owner has one lease, so Release needs no token", mode)
			l = f.acquire(f.any(mode, mode.String()))
			l.Token, l.Unanswered = 0, true
			require.NoError(f, f.store.Release(f.ctx, l), mode)
			f.acquire(f.any(mode, mode.String()))
		}
	}},
}

var refusing = []testCase{
	{name: "the_store_can_do_what_it_says", run: func(f *fixture) {
		l, other, s := f.acquire(f.request("k")), f.acquire(f.request("other")), f.store
		check := func(says bool, field string, err error) {
			f.Helper()
			assert.Equal(f, says, !errors.Is(err, errors.ErrUnsupported), "Description.%s, and the method returns: %v", field, err)
		}
		_, err := s.Wait(f.ctx, f.request("w"), func() {})
		check(f.can.Waits, "Waits", err)
		check(f.can.ReleasesAll, "ReleasesAll", s.ReleaseAll(f.ctx, []driver.Lease{other}, make([]error, 1)))
		_, err = s.Inspect(f.ctx, l.Key)
		check(f.can.Inspects, "Inspects", err)
		check(f.can.Inspects, "Inspects", s.ForceRelease(f.ctx, f.prefix+"free"))
		_, _, err = s.List(f.ctx, f.prefix, "")
		check(f.can.Lists, "Lists", err)
		check(f.can.SetsMetadata, "SetsMetadata", s.SetMetadata(f.ctx, l, "m"))
		check(f.can.Saves, "Saves", s.Save(f.ctx, l, 1, []byte("state"), f.TTL))
		check(f.can.Saves, "Saves", s.Forget(f.ctx, l.Key))
		_, err = s.Import(l)
		check(f.can.Imports, "Imports", err)
	}},
	{name: "foreign_data_does_not_affect_the_rest_of_a_batch", needs: needsSpoil, run: func(f *fixture) {
		a, b, c := f.acquire(f.request("a")), f.acquire(f.request("b")), f.acquire(f.request("c"))
		f.Spoil(f.T, f.store, b.Key)
		out := make([]renewal.Outcome, 3)
		_ = f.store.Renew(f.ctx, []driver.Lease{a, b, c}, out)
		assert.Equal(f, renewed, wordOf(out[0]))
		assert.NotEqual(f, renewed, wordOf(out[1]), "the lease no longer exists")
		assert.Equal(f, renewed, wordOf(out[2]))
		assert.True(f, f.Spoiled(f.T, f.store, b.Key))
	}},
	{name: "errors_keep_the_owner_secret", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		other := f.request("k")
		_, err := f.store.Acquire(f.ctx, other)
		require.Error(f, err)
		for _, format := range []string{"%v", "%+v", "%#v"} {
			assert.NotContains(f, fmt.Sprintf(format, err), l.Owner)
			assert.NotContains(f, fmt.Sprintf(format, err), other.Owner)
			assert.NotContains(f, fmt.Sprintf(format, l), l.Owner)
			assert.NotContains(f, fmt.Sprintf(format, l.Request), l.Owner)
		}
	}},
}

var contending = []testCase{
	{name: "S1_S3_many_at_a_time", run: func(f *fixture) {
		const clients, rounds = 8, 15
		ex := NewExclusion()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() { f.contendFor(ex, "k", rounds) })
		}
		wg.Wait()
		assert.Empty(f, ex.Violations())
		assert.Equal(f, clients*rounds, ex.Entered())
	}},
}

// contendFor acquires and releases a contended lock several times.
func (f *fixture) contendFor(ex *Exclusion, key string, rounds int) {
	for range rounds {
		r := f.request(key)
		var l driver.Lease
		for {
			got, err := f.store.Acquire(f.ctx, r)
			if err == nil {
				l = complete(got, r)
				break
			}
			if !assert.ErrorIs(f, err, driver.ErrNotAcquired) {
				return
			}
			time.Sleep(time.Millisecond + rand.N(8*time.Millisecond))
		}
		ex.Enter(r.Key, l.Token)
		assert.Equal(f, []outcome{renewed}, f.renew(l))
		ex.Leave(r.Key, l.Token)
		assert.NoError(f, f.store.Release(f.ctx, l))
	}
}
