// Cases of readers, permits and batches.

package locktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var reading = []testCase{
	{name: "S1_readers_share_a_lock_and_keep_writers_out", run: func(f *fixture) {
		a, b := f.acquire(f.read("k")), f.acquire(f.read("k"))
		f.rises(a.Token, b.Token)
		assert.Positive(f, f.refused(f.write("k")).ExpiresIn)
		f.release(a)
		f.refused(f.write("k"))
		f.release(b)
		w := f.acquire(f.write("k"))
		f.rises(b.Token, w.Token)
		assert.Positive(f, f.refused(f.read("k")).ExpiresIn)
		f.refused(f.write("k"))
		f.release(w)
		f.acquire(f.read("k"))
	}},
	{name: "a_renewal_does_not_downgrade_a_writer", run: func(f *fixture) {
		w := f.acquire(f.write("k"))
		r := w
		r.Mode = driver.Read
		assert.Equal(f, []outcome{renewed}, f.renew(r), "a renewal does not change the mode")
		f.refused(f.read("k"))
		f.release(r)
		f.acquire(f.write("k"))
	}},
}

var permitting = []testCase{
	{name: "S1_there_are_as_many_permits_as_the_limit_says", run: func(f *fixture) {
		a, b, c := f.acquire(f.permit("k", 3)), f.acquire(f.permit("k", 3)), f.acquire(f.permit("k", 3))
		f.rises(a.Token, b.Token)
		f.rises(b.Token, c.Token)
		assert.Positive(f, f.refused(f.permit("k", 3)).ExpiresIn)
		f.release(b)
		f.acquire(f.permit("k", 3))
		f.refused(f.permit("k", 3))
		assert.Equal(f, []outcome{renewed, lost, renewed}, f.renew(a, b, c))
	}},
	{name: "each_request_is_judged_by_its_own_limit", run: func(f *fixture) {
		f.acquire(f.permit("k", 1))
		f.refused(f.permit("k", 1))
		second := f.acquire(f.permit("k", 2))
		f.refused(f.permit("k", 2))
		f.acquire(f.permit("k", 100))
		f.refused(f.permit("k", 3))
		f.release(second)
		f.refused(f.permit("k", 1))
		f.acquire(f.permit("k", 3))
	}},
	{name: "S1_several_permits_in_one_request", run: func(f *fixture) {
		three := f.acquire(f.permits("k", 5, 3))
		assert.Positive(f, f.refused(f.permits("k", 5, 3)).ExpiresIn)
		two := f.acquire(f.permits("k", 5, 2))
		f.rises(three.Token, two.Token)
		f.refused(f.permit("k", 5))
		again := f.acquire(two.Request)
		assert.Equal(f, two.Token, again.Token, "a repeated request takes no more permits")
		f.refused(f.permits("k", 6, 2))
		one := f.acquire(f.permit("k", 6))
		f.release(two)
		f.refused(f.permits("k", 5, 2))
		f.release(one)
		f.acquire(f.permits("k", 5, 2))
		assert.Equal(f, []outcome{renewed, lost}, f.renew(three, two))
		f.release(three)
		f.refused(f.permits("k", 5, 4))
		f.acquire(f.permits("k", 5, 3))
	}},
	{name: "a_request_for_more_permits_than_the_limit", run: func(f *fixture) {
		_, err := f.store.Acquire(f.ctx, f.permits("k", 2, 3))
		require.Error(f, err)
		require.NotErrorIs(f, err, driver.ErrNotAcquired, "it can never be granted")
		f.acquire(f.permits("k", 2, 2))
	}},
	{name: "L2_several_permits_end_with_their_lease", ends: true, run: func(f *fixture) {
		f.acquire(f.lasting(f.permits("k", 6, 3), 10*f.TTL))
		short := f.acquire(f.permits("k", 6, 2))
		f.acquire(f.lasting(f.permit("k", 6), 10*f.TTL))
		assert.LessOrEqual(f, f.left(f.permits("k", 6, 2)), f.longest(f.TTL), "the lease of two permits is enough")
		assert.Greater(f, f.left(f.permits("k", 6, 3)), f.TTL, "the other leases must end too")
		f.expire()
		assert.Equal(f, []outcome{lost}, f.renew(short))
		f.left(f.permits("k", 6, 3))
		f.acquire(f.permits("k", 6, 2))
		f.left(f.permit("k", 6))
	}},
	{name: "L2_all_permits_end_together", ends: true, run: func(f *fixture) {
		f.acquire(f.permits("k", 3, 3))
		f.expire()
		f.acquire(f.permits("k", 3, 2))
		f.acquire(f.permit("k", 3))
		f.refused(f.permit("k", 3))
	}},
	{name: "many_permits", run: func(f *fixture) {
		const n = 300
		var leases []driver.Lease
		for range n {
			leases = append(leases, f.acquire(f.permit("k", n)))
		}
		f.refused(f.permit("k", n))
		for i, got := range f.renew(leases...) {
			assert.Equal(f, renewed, got, "permit %d", i)
		}
		f.release(leases...)
		f.acquire(f.permit("k", 1))
	}},
}

var batching = []testCase{
	{name: "S1_batches_exclude_each_other_by_their_members", run: func(f *fixture) {
		ab := f.acquire(f.batch("g", "a", "b"))
		cd := f.acquire(f.batch("g", "c", "d"))
		f.rises(ab.Token, cd.Token)
		f.acquire(f.batch("other", "a", "b"))
		for _, r := range []driver.Request{f.batch("g", "a"), f.batch("g", "b", "x"), f.batch("g", "b", "c"), f.batch("g", "d")} {
			assert.Positive(f, f.refused(r).ExpiresIn)
		}
		f.release(ab)
		assert.Equal(f, []outcome{lost, renewed}, f.renew(ab, cd))
		f.refused(f.batch("g", "b", "c"))
		f.rises(cd.Token, f.acquire(f.batch("g", "a", "b", "x")).Token)
	}},
	{name: "a_refused_batch_names_a_member_that_is_taken", run: func(f *fixture) {
		f.acquire(f.batch("g", "b\n\\", "c"))
		f.acquire(f.batch("g", "e"))
		// No free member is in two batches, because a late member of a quorum may grant it for a moment.
		assert.Equal(f, "b\n\\", f.refused(f.batch("g", "a", "b\n\\", "z")).Member)
		assert.Equal(f, "c", f.refused(f.batch("g", "a2", "c")).Member)
		assert.Contains(f, []string{"c", "e"}, f.refused(f.batch("g", "c", "d", "e")).Member)
	}},
	{name: "S8_a_batch_that_is_refused_takes_nothing", run: func(f *fixture) {
		m := f.acquire(f.batch("g", "m"))
		f.refused(f.batch("g", "a", "m", "z"))
		f.acquire(f.batch("g", "a"))
		f.acquire(f.batch("g", "z"))
		f.release(m)
		f.acquire(f.batch("g", "m"))
	}},
	{name: "members_are_bytes", run: func(f *fixture) {
		names := []string{
			"\x00", "\r\n", " ", "\"'\\", "%s", "*1", "0", "1", ":", "A", "a", "a ", "a\x00", "a\x00b", "a:", "a:b", "{", "{}",
			"\u00e9", "\ufffd", "\xff\xfe", "\xff\xff",
		}
		for _, between := range []string{",", ", ", ";", "|", "/", " ", "\t", "\n", "\x1f"} { // separators must not split or join names
			names = append(names, between+"b", "a"+between+"b")
		}
		slices.Sort(names)
		names = slices.Compact(names)
		all := f.acquire(f.batch("g", names...))
		for _, name := range names {
			f.refused(f.batch("g", name))
		}
		f.acquire(f.batch("g", "b"))
		f.release(all)
		for _, name := range names {
			f.acquire(f.batch("g", name))
		}
	}},
	{name: "as_many_members_as_there_may_be", run: func(f *fixture) {
		names := make([]string, driver.MaxMembers)
		for i := range names {
			names[i] = fmt.Sprintf("member-%05d", i)
		}
		long := strings.Repeat("n", driver.MaxKeyLen)
		r := f.batch("g", names...)
		r.TTL = f.aMinute()
		l := f.acquire(r)
		f.acquire(f.batch("g", long))
		assert.Equal(f, []outcome{renewed}, f.renew(l))
		_, err := f.store.Acquire(f.ctx, f.batch("g", names[len(names)-1]))
		assert.ErrorIs(f, err, driver.ErrNotAcquired)
		f.release(l)
		f.acquire(f.batch("g", names[0], names[len(names)-1]))
	}},
}

// ending has cases about leases that end. Each case tests many leases, because it costs a
// TTL.
var ending = []testCase{
	{name: "L2_leases_of_one_key_end_each_by_itself", ends: true, needs: needsModes(AllModes...), run: func(f *fixture) {
		deadReader, reader := f.acquire(f.read("k")), f.acquire(f.read("k"))
		deadPermit, permit := f.acquire(f.permit("s", 2)), f.acquire(f.permit("s", 2))
		deadBatch, batch := f.acquire(f.batch("g", "a", "b")), f.acquire(f.batch("g", "c"))
		got := time.Now()
		time.Sleep(f.TTL / 2)
		assert.Equal(f, []outcome{renewed, renewed, renewed}, f.renew(reader, permit, batch))
		f.refused(f.permit("s", 2))
		f.refused(f.batch("g", "b"))
		f.outlast(got, reader, permit, batch)
		assert.Equal(f, []outcome{lost, lost, lost, renewed, renewed, renewed},
			f.renew(deadReader, deadPermit, deadBatch, reader, permit, batch))
		f.refused(f.write("k"))
		f.release(reader)
		f.acquire(f.write("k")) // the expired reader does not block it
		f.acquire(f.permit("s", 2))
		f.refused(f.permit("s", 2))
		f.acquire(f.batch("g", "b"))
		f.acquire(f.batch("g", "a"))
		f.refused(f.batch("g", "c"))
	}},
	{name: "L2_readers_that_come_later_do_not_keep_a_dead_one_alive", ends: true, needs: needsModes(driver.Read, driver.Write), run: func(f *fixture) {
		dead := f.acquire(f.read("k"))
		got := time.Now()
		f.sleepPast(dead, 6)
		f.release(f.acquire(f.read("k")))
		f.outlast(got)
		f.acquire(f.write("k"))
		assert.Equal(f, []outcome{lost}, f.renew(dead))
	}},
	{name: "a_writer_becomes_a_reader", ends: true, needs: needsModes(driver.Read, driver.Write), run: func(f *fixture) {
		w := f.acquire(f.write("k"))
		time.Sleep(f.TTL / 2)
		turned := w.Request
		turned.Mode = driver.Read
		r := f.acquire(turned)
		assert.Equal(f, w.Token, r.Token)
		other := f.acquire(f.read("k"))
		f.refused(f.write("k"))
		f.sleepPast(r, 6)
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(r, w), "either mode renews it, and Acquire renewed the full TTL")
		assert.Equal(f, r.Token, f.acquire(turned).Token, "S10")
		f.refused(w.Request) // a late message does not turn it back into a writer
		f.release(f.acquire(f.read("k")))
		_ = f.store.Release(f.ctx, other)
		f.refused(f.write("k"))
		f.release(r)
		f.acquire(f.write("k"))
	}},
	{name: "S5_an_expired_lease_is_neither_revived_nor_downgraded", ends: true, needs: needsModes(AllModes...), run: func(f *fixture) {
		w, ab := f.acquire(f.write("k")), f.acquire(f.batch("g", "a", "b"))
		f.expire()
		next, b := f.acquire(f.write("k")), f.acquire(f.batch("g", "b"))
		w.Mode = driver.Read
		f.refused(w.Request)
		assert.Equal(f, []outcome{lost, renewed, lost, renewed}, f.renew(w, next, ab, b))
		f.release(next)
		f.rises(w.Token, f.acquire(w.Request).Token) // it gets a new lease
		f.refused(ab.Request)
		f.acquire(f.batch("g", "a"))
	}},
}
