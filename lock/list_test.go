package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// listed returns the keys that a client lists, sorted, and the error at the end.
func listed(ctx context.Context, c *lock.Client, prefix string) (keys []string, err error) {
	for key, e := range c.List(ctx, prefix) {
		if err = e; err == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, err
}

func TestAClientListsLocks(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		for i := range 2000 {
			b.lock(fmt.Sprintf("k%04d", i))
		}
		h := b.lock("other")
		keys, err := listed(ctx, b.Client, "k")
		require.NoError(t, err)
		assert.Len(t, keys, 2000)
		assert.Equal(t, "k1999", keys[1999])
		keys, err = listed(ctx, b.Client, "o")
		require.NoError(t, err)
		assert.Equal(t, []string{"other"}, keys)
		require.NoError(t, h.Unlock(ctx))
		keys, err = listed(ctx, b.Client, "o")
		require.NoError(t, err)
		assert.Empty(t, keys)

		all := b.List(ctx, "")
		for range 2 { // each loop starts from the beginning
			n := 0
			for range all {
				if n++; n == 3 {
					break
				}
			}
			assert.Equal(t, 3, n)
		}
	})
}

// pages is a store whose List has scripted answers.
type pages struct {
	driver.Store
	of map[string][]string // by cursor; the last element is the next cursor
}

func (p pages) List(_ context.Context, _, cursor string) ([]string, string, error) {
	page, ok := p.of[cursor]
	if !ok {
		return nil, "", errIO
	}
	return page[:len(page)-1], page[len(page)-1], nil
}

func TestListShowsEachKeyOnceAndEmptyPagesDoNotEndIt(t *testing.T) {
	c, err := lock.New(pages{memstore.New(), map[string][]string{"": {"a", "b", "a", "1"}, "1": {"2"}, "2": {"b", "c", ""}}}, nil)
	require.NoError(t, err)
	keys, err := listed(t.Context(), c, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, keys)
	require.NoError(t, c.Close(t.Context()))
}

func TestListEndsWithTheFirstError(t *testing.T) {
	c, err := lock.New(pages{memstore.New(), map[string][]string{"": {"a", "1"}}}, nil)
	require.NoError(t, err)
	calls := 0
	for key, err := range c.List(t.Context(), "p") {
		if calls++; calls == 1 {
			require.NoError(t, err)
			assert.Equal(t, "a", key)
			continue
		}
		assert.Empty(t, key)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.EqualError(t, err, `lock: list "p": store unavailable: connection reset`)
	}
	assert.Equal(t, 2, calls)
	require.NoError(t, c.Close(t.Context()))
}

func TestListsThatFail(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithCancelCause(context.Background())
		var none context.Context
		_, err := listed(none, b.Client, "")
		require.ErrorContains(t, err, "context is nil")
		_, err = listed(ctx, nil, "")
		require.Error(t, err)
		_, err = listed(ctx, new(lock.Client), "")
		require.Error(t, err)
		for _, prefix := range []string{"}", strings.Repeat("k", lock.MaxKeyLen+1)} {
			_, err = listed(ctx, b.Client, prefix)
			require.ErrorIs(t, err, lock.ErrBadKey)
		}
		assert.Zero(t, b.calls(locktest.List), "before any IO")
		cause := errors.New("enough")
		cancel(cause)
		_, err = listed(ctx, b.Client, "")
		require.ErrorIs(t, err, cause)
	})
}

// A loop does not keep Close waiting, except for a call of the store under way.
func TestCloseEndsAList(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		for i := range 1000 {
			b.lock(fmt.Sprint(i))
		}
		n := 0
		for _, err := range b.List(ctx, "") {
			if n++; n == 1 {
				require.NoError(t, b.Close(ctx))
			}
			if err != nil {
				require.ErrorIs(t, err, lock.ErrClosed)
				n = -1
			}
		}
		assert.Equal(t, -1, n)
	})
	waiting(t, nil, func(t *testing.T, b *bench) {
		b.loseRequests(hang(locktest.List))
		ended := make(chan error, 1)
		go func() {
			_, err := listed(context.Background(), b.Client, "")
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, b.Close(context.Background()))
		require.ErrorIs(t, <-ended, lock.ErrClosed)
	})
}
