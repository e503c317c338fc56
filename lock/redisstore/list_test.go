package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// listAll returns the sorted keys of all pages.
func listAll(t testing.TB, s *Store, prefix string) []string {
	t.Helper()
	var all []string
	for cursor, more := "", true; more; more = cursor != "" {
		keys, next, err := s.List(t.Context(), prefix, cursor)
		require.NoError(t, err)
		all, cursor = append(all, keys...), next
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// The prefix of a store may have characters with a meaning in patterns, and other stores may
// have prefixes that differ by them.
func TestListSeesTheLocksOfItsOwnPrefixOnly(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	for i, prefix := range []string{"p*:", "pp:", "p?:", "p[ab]:", "pa:", "p\\*:", "p", "", ":t"} {
		acquire(t, newStore(t, rdb, &Options{Prefix: prefix}), request(fmt.Sprint("k", i)))
	}
	for i, prefix := range []string{"p*:", "pp:", "p?:", "p[ab]:", "pa:", "p\\*:", "p"} {
		s := newStore(t, rdb, &Options{Prefix: prefix})
		assert.Equal(t, []string{fmt.Sprint("k", i)}, listAll(t, s, ""), "prefix %q", prefix)
		assert.Equal(t, []string{fmt.Sprint("k", i)}, listAll(t, s, "k"), "prefix %q", prefix)
	}
}

// Every key that a lock may have on the server is there, with a lock whose name looks like it.
func TestListShowsNoOtherKeys(t *testing.T) {
	t.Parallel()
	s, rdb := sharedStore(t)
	ctx := t.Context()
	for _, name := range []string{"a", "a}:t"} {
		k := s.sharedKeys(name, "o:1")
		for _, key := range []string{k.token, k.queue, k.places, k.tombstone, k.records, k.members, k.lock + metadataEnd} {
			require.NoError(t, rdb.Set(ctx, key, "17", 0).Err())
		}
	}
	assert.Empty(t, listAll(t, s, ""))
	acquire(t, s, request("a}:w"))
	assert.Equal(t, []string{"a}:w"}, listAll(t, s, ""))
	assert.Equal(t, []string{"a}:w"}, listAll(t, s, "a}:"))
	require.NoError(t, rdb.Set(ctx, s.prefix+"{}", "no lock can have it", 0).Err())
	assert.Equal(t, []string{"a}:w"}, listAll(t, s, ""))
}

// Other keys of the database cost time but nothing else.
func TestListIsBoundedPerCall(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	ctx := t.Context()
	const others = 20_000
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range others {
			p.Set(ctx, fmt.Sprint("other", i), "", 0)
		}
		return nil
	})
	require.NoError(t, err)
	s := newStore(t, rdb, nil)
	for i := range 3 {
		acquire(t, s, request(fmt.Sprint("k", i)))
	}
	assert.Equal(t, []string{"k0", "k1", "k2"}, listAll(t, s, "k"))
	calls := 0
	for cursor, more := "", true; more; more = cursor != "" {
		keys, next, err := s.List(ctx, "", cursor)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(keys), 3)
		cursor = next
		calls++
	}
	assert.Greater(t, calls, others/keysPerScan/2)
	assert.Less(t, calls, others/keysPerScan*3)
}

// listingTheMasters checks that all masters are listed, and that a change of the masters
// between two calls is an error.
func listingTheMasters(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, nil)
	var want []string
	servers := map[string]bool{}
	for i := range 100 {
		key := fmt.Sprintf("listed %02d", i)
		acquire(t, s, request(key))
		servers[serverOf(t, c, s.lockKey(key)).Addr()] = true
		want = append(want, key)
	}
	require.Len(t, servers, len(c.Masters))
	assert.Equal(t, want, listAll(t, s, "listed"))
	assert.Equal(t, want, listAll(t, newStore(t, rdb, &Options{Prefix: s.prefix}), ""), "a store that has not been used")

	_, next, err := s.List(t.Context(), "", "")
	require.NoError(t, err)
	require.NotEmpty(t, next)
	masters, err := s.redis.AllMasters(t.Context(), false)
	require.NoError(t, err)
	_, _, err = s.List(t.Context(), "", listCursor{scan: "0", masters: hashOf(masters[1:])}.String())
	require.ErrorIs(t, err, errMastersChanged)
	_, _, err = s.List(t.Context(), "", listCursor{scan: "0", node: len(masters), masters: hashOf(masters)}.String())
	require.ErrorIs(t, err, errMastersChanged)
}

func TestListCursors(t *testing.T) {
	t.Parallel()
	s, _ := sharedStore(t)
	one := []*redisconn.Node{s.redis.SingleNode()}
	at, err := parseCursor(listCursor{scan: "17", masters: hashOf(one)}.String(), one)
	require.NoError(t, err)
	assert.Equal(t, "17", at.scan)
	hash := fmt.Sprintf("%x", hashOf(one))
	for _, bad := range []string{".", "..", "0", hash, hash + ".0", hash + ".0.", hash + ".0.-1", hash + ".0.x", hash + ".x.0", "x.0.0", hash + ".0.0.0"} {
		_, err := parseCursor(bad, one)
		require.ErrorContains(t, err, "not one of List", bad)
	}
	for _, moved := range []string{hash + ".1.0", hash + ".-1.0", "1.0.0"} {
		_, err := parseCursor(moved, one)
		require.ErrorIs(t, err, errMastersChanged, moved)
	}
}

func TestStrangeRepliesToList(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{
		nil, "0", int64(0),
		[]any{},
		[]any{"0"},
		[]any{"0", "k"},
		[]any{int64(0), []any{}},
		[]any{"-1", []any{}},
		[]any{"", []any{}},
		[]any{"0", []any{int64(1)}},
		[]any{"0", []any{"k", nil}},
		[]any{"0", []any{}, "0"},
	} {
		_, _, err := parseScan(reply)
		require.Error(t, err, "%v", reply)
	}
	names, next, err := parseScan([]any{"18446744073709551615", []any{"a", "b"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names)
	assert.Equal(t, "18446744073709551615", next)
}

func TestListOfAStoreThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	_, _, err := new(Store).List(t.Context(), "p", "")
	require.EqualError(t, err, `redisstore: list "p": the Store was not made by New`)
	_, _, err = new(Store).List(nil, "p", "") //nolint:staticcheck // the context is nil on purpose
	require.EqualError(t, err, `redisstore: list "p": the context is nil`)
	s, _ := sharedStore(t)
	require.NoError(t, s.Close())
	_, _, err = s.List(t.Context(), "p", "")
	require.ErrorIs(t, err, driver.ErrStoreClosed)
	assert.True(t, strings.HasPrefix(err.Error(), `redisstore: list "p": `), err.Error())
}
