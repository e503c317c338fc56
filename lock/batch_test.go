package lock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// members returns n names.
func members(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("order ", i)
	}
	return names
}

func TestABatchIsOneLease(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		names := members(lock.MaxMembers)
		batch := b.Batch("g", names...)
		names[0] = "changed"
		h := lockAll(t, batch)
		assert.Equal(t, 1, b.calls(locktest.Acquire), "got by one request")
		assert.Equal(t, 1, b.Stats().Renewal.Held, "renewed by one entry")
		assert.Equal(t, "g", h.Key())
		assert.Equal(t, `members lease of "g"`, h.String())
		assert.Equal(t, []*lock.Held{h}, h.Handles())
		want := members(lock.MaxMembers)
		slices.Sort(want)
		assert.Equal(t, want, h.Members(), "a copy, sorted")
		assert.NotZero(t, h.Token())
		settle(time.Hour)
		assert.True(t, h.Valid())
		_, err := b.Batch("g", "new", "order 9999").TryLock(ctx)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, "g", held.Key)
		assert.Equal(t, "order 9999", held.Member)
		require.NoError(t, lockAll(t, b.Batch("g", "new")).Unlock(ctx), "that took nothing")
		require.NoError(t, h.Unlock(ctx))
		next := lockAll(t, b.Batch("g", "order 0", "order 9999"))
		assert.Greater(t, next.Token(), h.Token())
		require.NoError(t, next.Unlock(ctx))
	})
}

func TestBadMembersDoNoIO(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		long := strings.Repeat("x", lock.MaxKeyLen)
		many := make([]string, 2000)
		for i := range many {
			many[i] = fmt.Sprint(i, strings.Repeat("x", 600))
		}
		most := make([]string, lock.MaxMemberBytes/1024)
		for i := range most {
			most[i] = fmt.Sprintf("%01024d", i)
		}
		for name, tc := range map[string]struct {
			members []string
			want    string
		}{
			"none":        {nil, "got 0"},
			"too many":    {members(lock.MaxMembers + 1), "got 10001"},
			"an empty":    {[]string{"a", "", "b"}, "member 1 is empty"},
			"a long one":  {[]string{"a", "b", long + "x"}, "member 2 is 1025 bytes long"},
			"one twice":   {[]string{"b", "a", "c", "a"}, `member 3 is member 1 again, "a"`},
			"large ones":  {many, "the limit is 1048576"},
			"one byte":    {append(slices.Clone(most), "x"), "up to member 1024 they have 1048577 bytes"},
			"binary once": {[]string{"\xff", "\xfe", "\xff"}, `member 2 is member 0 again, "\xff"`},
		} {
			batch := b.Batch("g", tc.members...)
			_, err := batch.Lock(ctx)
			require.ErrorIs(t, err, lock.ErrBadMembers, name)
			require.ErrorContains(t, err, tc.want, name)
			require.ErrorContains(t, err, `"g"`, name)
			_, err = batch.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrBadMembers, name)
		}
		_, err := b.Batch("", "m").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrBadKey)
		assert.Zero(t, b.calls(locktest.Acquire))
		require.NoError(t, lockAll(t, b.Batch("g", long, "a")).Unlock(ctx))
		require.NoError(t, lockAll(t, b.Batch("g", most...)).Unlock(ctx), "as many bytes as may be")
	})
}

func TestBatchesInAMulti(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		second := memstoreClient(t)
		all := lock.Multi(b.Batch("g", "a", "b"), b.Batch("g", "c"), second.Batch("g", "a"), b.RWMutex("rw").RLocker(), b.Semaphore("s", 2))
		h := lockAll(t, all)
		assert.Len(t, h.Handles(), 5)
		assert.Equal(t, []string{"a", "a", "b", "c"}, h.Members())
		inside, stop := h.Context(ctx)
		defer stop()
		inner, err := b.Batch("g", "a", "c").Lock(inside)
		require.NoError(t, err, "each of its batches is entered")
		require.NoError(t, inner.Unlock(ctx))
		_, err = second.Batch("g", "a").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, lockAll(t, b.RWMutex("rw").RLocker()).Unlock(ctx))
		require.NoError(t, h.Unlock(ctx))
		assert.Zero(t, b.mem.Len())

		for want, m := range map[string]lock.Locker{
			"lock 1 of Multi is lock 0 again": lock.Multi(b.Batch("g", "a", "b"), b.Batch("g", "b", "c")),
			"lock 2 of Multi is lock 0 again": lock.Multi(b.RWMutex("k"), b.Batch("g", "k"), b.RWMutex("k").RLocker()),
			"lock 2 of Multi is lock 1 again": lock.Multi(b.Batch("s", "s"), b.Semaphore("s", 2), b.Semaphore("s", 3)),
			"lock 3 of Multi is lock 1 again": lock.Multi(b.Mutex("b"), b.Mutex("a"), b.Batch("a", "b"), b.RWMutex("a").RLocker()),
		} {
			_, err := m.Lock(ctx)
			require.ErrorContains(t, err, want)
		}
	})
}
