// Cases of Save and Forget.

package locktest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// stateful returns a request for a lock and the state of its key.
func (f *fixture) stateful(key string) driver.Request {
	r := f.request(key)
	r.Attrs = &driver.Attrs{Stateful: true}
	return r
}

// found acquires a free lock and checks the state that came with it.
func (f *fixture) found(key, data string, token uint64) driver.Lease {
	f.Helper()
	l := f.acquire(f.stateful(key))
	f.has(l, data, token)
	return l
}

func (f *fixture) has(l driver.Lease, data string, token uint64) {
	f.Helper()
	require.NotNil(f, l.Saved, "a grant for a request that is Stateful tells the state")
	assert.Equal(f, token, l.Saved.Token)
	if got := string(l.Saved.Data); got != data { // up to 64 KiB
		assert.Fail(f, "another state", "%.20q of %d bytes instead of %.20q of %d", got, len(got), data, len(data))
	}
}

const stateTTL = time.Hour

// saving has the cases of Save and Forget.
var saving = []testCase{
	{name: "a_state_passes_to_the_next_holder", run: func(f *fixture) {
		first := f.found("k", "", 0)
		require.NoError(f, f.store.Save(f.ctx, first, 1, []byte("one"), stateTTL))
		again := f.acquire(first.Request)
		assert.Equal(f, first.Token, again.Token, "the same grant")
		f.has(again, "one", first.Token)
		require.NoError(f, f.store.Save(f.ctx, first, 2, []byte("two"), stateTTL))
		assert.Equal(f, []outcome{renewed}, f.renew(first))
		f.release(first)

		second := f.found("k", "two", first.Token)
		f.release(second)
		third := f.found("k", "two", first.Token)
		require.NoError(f, f.store.Save(f.ctx, third, 1, []byte("three"), stateTTL))
		f.release(third)
		plain := f.acquire(f.request("k"))
		assert.Nil(f, plain.Saved, "for a request that does not ask")
		f.release(plain)
		f.release(f.found("k", "three", third.Token))
		f.release(f.found("other", "", 0))
	}},
	{name: "a_state_survives_the_end_of_its_lease", ends: true, run: func(f *fixture) {
		l := f.found("k", "", 0)
		require.NoError(f, f.store.Save(f.ctx, l, 1, []byte("one"), stateTTL))
		f.expire()
		f.found("k", "one", l.Token)
	}},
	{name: "S11_a_save_after_the_end_of_a_lease_changes_nothing", ends: true, run: func(f *fixture) {
		old, silent := f.found("k", "", 0), f.found("free", "", 0)
		require.NoError(f, f.store.Save(f.ctx, old, 1, []byte("old"), stateTTL))
		f.expire()
		require.ErrorIs(f, f.store.Save(f.ctx, silent, 1, []byte("late"), stateTTL), driver.ErrNotHeld, "nobody holds the lock")
		f.found("free", "", 0)
		next := f.found("k", "old", old.Token)
		require.ErrorIs(f, f.store.Save(f.ctx, old, 2, []byte("late"), stateTTL), driver.ErrNotHeld)
		require.NoError(f, f.store.Save(f.ctx, next, 1, []byte("next"), stateTTL))
		require.ErrorIs(f, f.store.Save(f.ctx, old, 3, []byte("later"), stateTTL), driver.ErrNotHeld)
		f.has(f.acquire(next.Request), "next", next.Token)
	}},
	{name: "S11_only_the_holder_saves", run: func(f *fixture) {
		l := f.found("k", "", 0)
		require.ErrorIs(f, f.store.Save(f.ctx, complete(l, f.stateful("k")), 1, []byte("x"), stateTTL), driver.ErrNotHeld, "another owner")
		stale := l
		stale.Token--
		stale.State = nil
		require.ErrorIs(f, f.store.Save(f.ctx, stale, 1, []byte("x"), stateTTL), driver.ErrNotHeld, "another token")
		require.ErrorIs(f, f.store.Save(f.ctx, complete(l, f.stateful("free")), 1, []byte("x"), stateTTL), driver.ErrNotHeld, "another key")
		ctx := f.cancelledContext()
		require.ErrorIs(f, f.store.Save(ctx, l, 1, []byte("x"), stateTTL), errCancelled)
		require.ErrorIs(f, f.store.Forget(ctx, l.Key), errCancelled)
		f.release(l)
		require.ErrorIs(f, f.store.Save(f.ctx, l, 2, []byte("x"), stateTTL), driver.ErrNotHeld, "released")
		f.found("k", "", 0)
		f.found("free", "", 0)
	}},
	{name: "S11_saves_that_are_executed_late_or_twice", run: func(f *fixture) {
		l := f.found("k", "", 0)
		for _, save := range []struct {
			number uint64
			data   string
			want   string
		}{{2, "two", "two"}, {1, "late", "two"}, {2, "again", "two"}, {10, "ten", "ten"}, {9, "late", "ten"}} {
			require.NoError(f, f.store.Save(f.ctx, l, save.number, []byte(save.data), stateTTL))
			f.has(f.acquire(l.Request), save.want, l.Token)
		}
		f.release(l)
		next := f.found("k", "ten", l.Token)
		require.NoError(f, f.store.Save(f.ctx, next, 1, []byte("next"), stateTTL), "each lease counts from 1")
		f.release(next)
		f.found("k", "next", next.Token)
	}},
	{name: "a_waiter_gets_the_state", needs: needsWaiting, run: func(f *fixture) {
		l := f.found("k", "", 0)
		c := f.waitFor(f.stateful("k"))
		require.NoError(f, f.store.Save(f.ctx, l, 1, []byte("one"), stateTTL))
		f.release(l)
		next := c.get()
		if next.Saved == nil { // the client does that
			again := f.acquire(next.Request)
			require.Equal(f, next.Token, again.Token)
			next = again
		}
		f.has(next, "one", l.Token)
		require.ErrorIs(f, f.store.Save(f.ctx, l, 2, []byte("late"), stateTTL), driver.ErrNotHeld)
		require.NoError(f, f.store.Save(f.ctx, next, 1, []byte("two"), stateTTL))
		f.release(next)
		f.found("k", "two", next.Token)
	}},
	{name: "states_are_bytes", run: func(f *fixture) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		full := bytes.Repeat([]byte{0xff}, driver.MaxSavedLen)
		var last driver.Lease
		var want string
		for i, data := range [][]byte{nil, all, []byte("1 2 3"), full, []byte(" "), bytes.Repeat(all, driver.MaxSavedLen/256), nil} {
			l := f.found("k", want, last.Token)
			mine := bytes.Clone(data)
			require.NoError(f, f.store.Save(f.ctx, l, 1, mine, stateTTL), i)
			clear(mine) // Save does not keep it
			f.release(l)
			last, want = l, string(data)
		}
		f.found("k", want, last.Token)
	}},
	{name: "states_have_keys_of_their_own", run: func(f *fixture) {
		keys := []string{"a", "A", "a:s", "a:t", "a/s", "a_s", "a s", "a\x00", "\xff", "é"}
		var saved []driver.Lease
		for _, key := range keys {
			l := f.found(key, "", 0)
			require.NoError(f, f.store.Save(f.ctx, l, 1, []byte(key), stateTTL))
			f.release(l)
			saved = append(saved, l)
		}
		for i, key := range keys {
			f.release(f.found(key, key, saved[i].Token))
		}
		if f.can.Lists {
			assert.Empty(f, f.list(""))
		}
		if f.can.Inspects {
			assert.Zero(f, f.inspect("a").Held)
		}
	}},
	{name: "a_state_ends", ends: true, run: func(f *fixture) {
		l := f.found("k", "", 0)
		long := f.found("long", "", 0)
		require.NoError(f, f.store.Save(f.ctx, l, 1, []byte("one"), stateTTL))
		require.NoError(f, f.store.Save(f.ctx, long, 1, []byte("short"), time.Second))
		require.NoError(f, f.store.Save(f.ctx, long, 2, []byte("long"), stateTTL))
		require.NoError(f, f.store.Save(f.ctx, l, 2, []byte("two"), time.Second), "the last save counts")
		f.release(l, long)
		time.Sleep(time.Second + 2*time.Second + 100*time.Millisecond)
		f.release(f.found("k", "", 0))
		f.found("long", "long", long.Token)
	}},
	{name: "a_state_is_forgotten", run: func(f *fixture) {
		l := f.found("k", "", 0)
		require.NoError(f, f.store.Forget(f.ctx, l.Key), "there is none")
		require.NoError(f, f.store.Save(f.ctx, l, 1, []byte("one"), stateTTL))
		require.NoError(f, f.store.Forget(f.ctx, l.Key))
		f.has(f.acquire(l.Request), "", 0)
		assert.Equal(f, []outcome{renewed}, f.renew(l), "the lock is held as before")
		require.NoError(f, f.store.Save(f.ctx, l, 2, []byte("two"), stateTTL))
		f.release(l)
		require.NoError(f, f.store.Forget(f.ctx, l.Key))
		f.found("k", "", 0)
	}},
	{name: "only_a_mutex_has_a_state", needs: needsModes(driver.Read), run: func(f *fixture) {
		l := f.acquire(f.read("k"))
		require.ErrorIs(f, f.store.Save(f.ctx, l, 1, nil, stateTTL), errors.ErrUnsupported)
	}},
	{name: "S11_no_save_is_lost_among_many_holders", run: func(f *fixture) {
		const clients, rounds = 4, 8
		var wg sync.WaitGroup
		for range clients {
			m := f.newClient().With(lock.Terms{StateTTL: stateTTL}).Mutex(f.request("k").Key)
			wg.Go(func() {
				for range rounds {
					h, err := m.Lock(f.ctx)
					if !assert.NoError(f, err) {
						return
					}
					data, _ := h.State()
					n, _ := strconv.Atoi(string(data))
					assert.NoError(f, h.Save(f.ctx, fmt.Append(nil, n+1)))
					assert.NoError(f, h.Unlock(f.ctx))
				}
			})
		}
		wg.Wait()
		assert.Equal(f, strconv.Itoa(clients*rounds), string(f.acquire(f.stateful("k")).Saved.Data))
	}},
}
