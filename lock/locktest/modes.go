package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// AllModes are those that a store may know beside Exclusive.
var AllModes = []lock.Mode{lock.Read, lock.Write, lock.Permit, lock.Members}

// needs returns the condition that a store knows modes.
func needsModes(modes ...lock.Mode) func(Config) bool {
	return func(c Config) bool {
		return !slices.ContainsFunc(modes, func(m lock.Mode) bool { return !slices.Contains(c.Modes, m) })
	}
}

func both(a, b func(Config) bool) func(Config) bool {
	return func(c Config) bool { return a(c) && b(c) }
}

// in returns a request of a mode, by a new owner.
func (f *fixture) in(mode lock.Mode, key string, extra *lock.Extra) lock.Request {
	r := f.request(key)
	r.Mode, r.Extra = mode, extra
	return r
}

// allModes are Exclusive and those that the store knows beside it.
func (f *fixture) allModes() []lock.Mode { return append([]lock.Mode{lock.Exclusive}, f.Modes...) }

func (f *fixture) read(key string) lock.Request  { return f.in(lock.Read, key, nil) }
func (f *fixture) write(key string) lock.Request { return f.in(lock.Write, key, nil) }

func (f *fixture) permit(key string, limit int) lock.Request {
	return f.in(lock.Permit, key, &lock.Extra{Limit: limit})
}

// batch asks for members, which are given in order.
func (f *fixture) batch(key string, members ...string) lock.Request {
	return f.in(lock.Members, key, &lock.Extra{Members: members})
}

// any returns a request of any mode, of which two cannot be granted together, but
// those of readers.
func (f *fixture) any(mode lock.Mode, key string) lock.Request {
	switch mode {
	case lock.Permit:
		return f.permit(key, 1)
	case lock.Members:
		return f.batch(key, "a", "b")
	}
	return f.in(mode, key, nil)
}

// refused expects that others have what is asked for, or wait for it.
func (f *fixture) refused(r lock.Request) *lock.HeldError {
	f.Helper()
	_, err := f.store.Acquire(f.ctx, r)
	var held *lock.HeldError
	require.ErrorAs(f, err, &held, r)
	require.ErrorIs(f, err, lock.ErrNotAcquired)
	assert.Equal(f, r.Key, held.Key)
	assert.LessOrEqual(f, held.ExpiresIn, f.TTL)
	return held
}

// release gives back what is held.
func (f *fixture) release(leases ...lock.Lease) {
	f.Helper()
	for _, l := range leases {
		require.NoError(f, f.store.Release(f.ctx, l), l)
	}
}

type perModeCase struct {
	name  string
	run   func(f *fixture, mode lock.Mode)
	needs func(c Config) bool
}

// perMode are the rules that are the same in all modes, and wait for nothing.
var perMode = []perModeCase{
	{name: "S3_tokens_rise", run: func(f *fixture, mode lock.Mode) {
		var last uint64
		for range 5 {
			l := f.acquire(f.any(mode, "k"))
			f.rises(last, l.Token)
			last = l.Token
			f.release(l)
		}
	}},
	{name: "S4_only_the_holder_renews_and_releases", run: func(f *fixture, mode lock.Mode) {
		l := f.acquire(f.any(mode, "k"))
		stranger, older := l, l
		stranger.Owner += "0"
		older.Token--
		assert.Equal(f, []outcome{lost, renewed, lost}, f.renew(stranger, l, older))
		require.ErrorIs(f, f.store.Release(f.ctx, stranger), lock.ErrNotHeld)
		assert.Equal(f, []outcome{renewed}, f.renew(l))
	}},
	{name: "L4_an_acquire_that_was_given_up_takes_nothing_later", run: func(f *fixture, mode lock.Mode) {
		r := f.any(mode, "k")
		require.ErrorIs(f, f.store.Release(f.ctx, lock.Lease{Request: r, Unanswered: true}), lock.ErrNotHeld)
		_, err := f.store.Acquire(f.ctx, r)
		require.ErrorIs(f, err, lock.ErrNotAcquired)
		require.NotErrorAs(f, err, new(*lock.HeldError))
		l := f.acquire(f.any(mode, "k"))
		l.Unanswered = true
		f.release(l)
		_, err = f.store.Acquire(f.ctx, l.Request)
		require.ErrorIs(f, err, lock.ErrNotAcquired)
		f.acquire(f.any(mode, "k"))
	}},
	{name: "a_cancelled_context_does_nothing", run: func(f *fixture, mode lock.Mode) {
		ctx, cancel := context.WithCancelCause(f.ctx)
		cancel(errCancelled)
		_, err := f.store.Acquire(ctx, f.any(mode, "k"))
		require.ErrorIs(f, err, errCancelled)
		l := f.acquire(f.any(mode, "k"))
		require.ErrorIs(f, f.store.Release(ctx, l), errCancelled)
		assert.Equal(f, []outcome{renewed}, f.renew(l))
	}},
	{name: "what_was_deleted_is_lost", needs: needsDelete, run: func(f *fixture, mode lock.Mode) {
		l := f.acquire(f.any(mode, "k"))
		f.Delete(f.T, f.store, l.Key)
		assert.Equal(f, []outcome{lost}, f.renew(l))
		f.rises(l.Token, f.acquire(f.any(mode, "k")).Token)
		require.ErrorIs(f, f.store.Release(f.ctx, l), lock.ErrNotHeld)
	}},
	{name: "what_is_no_lock_is_left_alone", needs: needsSpoil, run: func(f *fixture, mode lock.Mode) {
		r := f.any(mode, "k")
		f.Spoil(f.T, f.store, r.Key)
		_, err := f.store.Acquire(f.ctx, r)
		require.ErrorIs(f, err, lock.ErrWrongType)
		assert.NotContains(f, err.Error(), r.Owner)
		_ = f.store.Release(f.ctx, lock.Lease{Request: r, Unanswered: true})
		assert.True(f, f.Spoiled(f.T, f.store, r.Key))
	}},
	{name: "keys_are_bytes", run: func(f *fixture, mode lock.Mode) {
		var leases []lock.Lease
		for _, k := range []string{"", "\x00", "\xff\xfe", "a\r\nb", "{", "{}", "a{b}c", ":", "a:r:", "é", "🔒", "%s", "'\"\\"} {
			r := f.any(mode, "")
			r.Key += k
			leases = append(leases, f.acquire(r))
		}
		f.release(leases...)
	}},
}

// casesOf returns the rules of all modes as cases of each.
func casesOf(rules []perModeCase) []testCase {
	var cases []testCase
	for _, mode := range AllModes {
		for _, rule := range rules {
			needs := needsModes(mode)
			if rule.needs != nil {
				needs = both(needs, rule.needs)
			}
			cases = append(cases, testCase{
				name:  fmt.Sprintf("%v_%s", mode, rule.name),
				needs: needs,
				run:   func(f *fixture) { rule.run(f, mode) },
			})
		}
	}
	return cases
}

// unknownModes are what a store does not know.
func unknownModes() []testCase {
	var cases []testCase
	for _, mode := range AllModes {
		cases = append(cases, testCase{
			name:  fmt.Sprintf("%v_is_refused_by_a_store_that_does_not_know_it", mode),
			needs: func(c Config) bool { return !slices.Contains(c.Modes, mode) },
			run: func(f *fixture) {
				_, err := f.store.Acquire(f.ctx, f.any(mode, "k"))
				require.ErrorIs(f, err, errors.ErrUnsupported)
				f.acquire(f.request("k"))
			},
		})
	}
	return cases
}

// inAll are the rules that are the same in all modes, and wait for leases to end: for
// those of all modes at a time.
var inAll = []testCase{
	{name: "S10_a_repeated_acquire_is_the_same_grant_in_all_modes", ends: true, run: func(f *fixture) {
		leases := f.acquireAll()
		time.Sleep(f.TTL / 2)
		for _, l := range leases {
			assert.Equal(f, f.Tokenless, l.Token == 0, l.Mode)
			assert.Equal(f, l.Token, f.acquire(l.Request).Token, l.Mode)
		}
		time.Sleep(f.TTL * 6 / 10)
		for i, got := range f.renew(leases...) {
			assert.Equal(f, renewed, got, "%v: the second one gave it its full TTL again", leases[i].Mode)
		}
		for _, l := range leases {
			f.release(l)
			require.ErrorIs(f, f.store.Release(f.ctx, l), lock.ErrNotHeld, "%v: it is held once", l.Mode)
		}
	}},
	{name: "S5_what_has_ended_is_not_revived_in_any_mode", ends: true, run: func(f *fixture) {
		released := f.acquireAll()
		f.release(released...)
		for _, l := range released {
			assert.Equal(f, []outcome{lost}, f.renew(l), l.Mode)
		}
		ended := f.acquireAll()
		f.expire()
		for i, l := range ended {
			assert.Equal(f, []outcome{lost, lost}, f.renew(l, released[i]), l.Mode)
			require.ErrorIs(f, f.store.Release(f.ctx, l), lock.ErrNotHeld, l.Mode)
		}
		for i, l := range f.acquireAll() {
			assert.Equal(f, []outcome{lost, lost, renewed}, f.renew(ended[i], released[i], l), l.Mode)
			f.rises(ended[i].Token, l.Token) // S3
		}
	}},
	{name: "L0_what_is_renewed_lasts_in_all_modes", ends: true, run: func(f *fixture) {
		leases := f.acquireAll()
		for range 6 {
			time.Sleep(f.TTL / 4)
			for i, got := range f.renew(leases...) {
				require.Equal(f, renewed, got, leases[i].Mode)
			}
		}
	}},
}

// acquireAll gets a lock in each mode that the store knows, each of another key.
func (f *fixture) acquireAll() []lock.Lease {
	f.Helper()
	var leases []lock.Lease
	for _, mode := range f.Modes {
		leases = append(leases, f.acquire(f.any(mode, mode.String())))
	}
	return leases
}

var families = []testCase{
	{name: "a_key_is_held_in_one_family_at_a_time", ends: true, needs: needsModes(AllModes...), run: func(f *fixture) {
		all := []lock.Mode{lock.Exclusive, lock.Write, lock.Read, lock.Permit, lock.Members}
		for _, mode := range all {
			l := f.acquire(f.any(mode, "k"))
			for _, other := range all {
				if familyOf(other) == familyOf(mode) {
					continue
				}
				_, err := f.store.Acquire(f.ctx, f.any(other, "k"))
				require.ErrorIs(f, err, lock.ErrWrongType, "%v while it is %v", other, mode)
				require.NotErrorIs(f, err, lock.ErrNotAcquired)
			}
			assert.Equal(f, []outcome{renewed}, f.renew(l))
			f.release(l)
		}
		for i, mode := range all {
			f.acquire(f.any(mode, fmt.Sprint("ends", i)))
		}
		f.expire()
		for i := range all { // the end of a lease frees the key as well
			f.acquire(f.any(all[(i+2)%len(all)], fmt.Sprint("ends", i)))
		}
	}},
}

var mixing = []testCase{
	{name: "leases_of_all_modes_in_one_batch", needs: needsModes(AllModes...), run: func(f *fixture) {
		var batch []lock.Lease
		var want []outcome
		for i := range 200 {
			l := f.acquire(f.any(lock.Mode(i%5), fmt.Sprint(i)))
			expected := renewed
			switch i % 7 {
			case 2:
				f.release(l)
				expected = lost
			case 4:
				l.Owner += "0"
				expected = lost
			case 5:
				l.Token++
				expected = lost
			}
			batch, want = append(batch, l), append(want, expected)
		}
		assert.Equal(f, want, f.renew(batch...))
	}},
}

func familyOf(m lock.Mode) lock.Mode {
	if m == lock.Read {
		return lock.Write
	}
	return m
}
