package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
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
	_, owners, err := s.redis.Masters(t.Context(), false)
	require.NoError(t, err)
	_, _, err = s.List(t.Context(), "", listCursor{scan: "0", owners: owners + 1}.String())
	require.ErrorIs(t, err, errMastersChanged)
	_, _, err = s.List(t.Context(), "", listCursor{scan: "0", node: len(c.Masters), owners: owners}.String())
	require.ErrorIs(t, err, errMastersChanged)
}

// listingMovedSlots moves a slot, between two calls of List, from a master whose keys have not
// been visited to the one whose keys have. The set of masters stays the same, and the store
// does not hear of the move. The end of the List would miss the lock in the slot.
func listingMovedSlots(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, &Options{Timeout: long, Prefix: "moved:"})
	acquireAll(t, s, "k", 30)
	masters, _, err := s.redis.Masters(t.Context(), true)
	require.NoError(t, err)
	server := func(n *redisconn.Node) *testredis.Server {
		return c.Masters[slices.IndexFunc(c.Masters, func(m *testredis.Server) bool { return m.Addr() == n.Addr() })]
	}
	for _, from := range masters[1:] {
		moving := "k0"
		for i := 1; serverOf(t, c, s.lockKey(moving)) != server(from); i++ {
			moving = fmt.Sprint("k", i)
		}
		next := ""
		for next == "" || !strings.Contains(next, ".1.0.") { // until the first master is complete
			var keys []string
			keys, next, err = s.List(t.Context(), "", next)
			require.NoError(t, err)
			require.NotContains(t, keys, moving)
			require.NotEmpty(t, next)
		}

		slot := int(redisconn.SlotOf(s.lockKey(moving)))
		require.NoError(t, c.Move(t.Context(), slot, server(from), server(masters[0])))
		for err == nil && next != "" {
			_, next, err = s.List(t.Context(), "", next)
		}
		require.ErrorIs(t, err, errMastersChanged)
		require.NoError(t, c.Agree(t.Context(), slot, server(masters[0])))
		assert.Contains(t, listAll(t, s, ""), moving, "another List finds it")
	}
}

// manyKeys makes keys that are no locks, so that a List takes several calls.
func manyKeys(t *testing.T, rdb *redis.Client) {
	t.Helper()
	ctx := t.Context()
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 5 * keysPerScan {
			p.Set(ctx, fmt.Sprint("other", i), "", 0)
		}
		return nil
	})
	require.NoError(t, err)
}

// A cursor of SCAN means nothing to another process, which may also have lost keys.
func TestAListDoesNotGoOnOnAnotherServer(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	manyKeys(t, rdb)
	s := newStore(t, rdb, &Options{Timeout: long})
	_, next, err := s.List(t.Context(), "", "")
	require.NoError(t, err)
	_, next, err = s.List(t.Context(), "", next)
	require.NoError(t, err, "the same server")
	require.NoError(t, srv.Restart())
	require.Eventually(t, func() bool { // the first requests may fail with the connections to the old process
		_, _, err = s.List(t.Context(), "", next)
		return err == nil || errors.Is(err, errServerReplaced)
	}, 30*time.Second, time.Millisecond)
	require.ErrorIs(t, err, errServerReplaced)
}

// A user who may not ask which process answers is refused once in each List.
func TestAListWithoutTheRightToInfo(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	admin := srv.Client(t)
	if !hasUsers(t, admin) {
		t.Skip("there are no rights before Redis 6")
	}
	manyKeys(t, admin)
	s := newStore(t, limited(t, admin), &Options{Prefix: "lw:"})
	acquire(t, s, request("k"))
	assert.Equal(t, []string{"k"}, listAll(t, s, ""))
	var refused int64
	for _, entry := range admin.ACLLog(t.Context(), 100).Val() {
		if entry.Object == "info" {
			refused += entry.Count
		}
	}
	assert.EqualValues(t, 1, refused)
}

func TestListCursors(t *testing.T) {
	t.Parallel()
	want := listCursor{scan: "17", owners: 0xabc, process: "0f"}
	at, err := parseCursor(want.String(), 1, 0xabc)
	require.NoError(t, err)
	assert.Equal(t, want, at)
	for _, bad := range []string{
		".", "..", "...", "0", "abc", "abc.0", "abc.0.", "abc.0.0", "abc.0..", "abc.0.-1.", "abc.0.x.", "abc.x.0.", "x.0.0.", "abc.0.0.0.0",
	} {
		_, err := parseCursor(bad, 1, 0xabc)
		require.ErrorContains(t, err, "not one of List", bad)
	}
	for _, moved := range []string{"abc.1.0.", "abc.-1.0.", "1.0.0."} {
		_, err := parseCursor(moved, 1, 0xabc)
		require.ErrorIs(t, err, errMastersChanged, moved)
	}
}

func TestStrangeRepliesToList(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{
		nil, "0", int64(0),
		[]any{},
		[]any{"0"},
		[]any{"0", []any{}},
		[]any{"0", "k", ""},
		[]any{int64(0), []any{}, ""},
		[]any{"-1", []any{}, ""},
		[]any{"", []any{}, ""},
		[]any{"0", []any{int64(1)}, ""},
		[]any{"0", []any{"k", nil}, ""},
		[]any{"0", []any{}, int64(0)},
		[]any{"0", []any{}, strings.Repeat("a", 101)},
		[]any{"0", []any{}, "", "0"},
	} {
		_, _, _, err := parseScan(reply)
		require.Error(t, err, "%v", reply)
	}
	names, next, process, err := parseScan([]any{"18446744073709551615", []any{"a", "b"}, "0f"})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names)
	assert.Equal(t, "18446744073709551615", next)
	assert.Equal(t, "0f", process)
}
