package interop

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/lock/redlock"
	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

// TestRounds lets both sides contend for a lock on one server.
func TestRounds(t *testing.T) {
	inTurn(t, runtimes(), func(t *testing.T, r runtime) {
		server := shared.Server(t)
		rdb := server.Client(t)
		p := start(t, r.command(t), server.Addr())
		report.Note("%s: %s", r.name, p.ask(request{Do: "hello"}).Version)
		report.Note("server: Redis %s", serverVersion(t, rdb))
		contend(t, p, newClient(t, rdb, long), rdb, r.name, "one server", report.Rounds(1))
	})
}

// inTurn runs a test that measures latencies, with one library after another.
func inTurn(t *testing.T, all []runtime, f func(t *testing.T, r runtime)) {
	t.Helper()
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) { f(t, r) })
	}
}

func serverVersion(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	info, err := rdb.Info(t.Context(), "server").Result()
	require.NoError(t, err)
	_, rest, found := strings.Cut(info, "redis_version:")
	require.True(t, found)
	return strings.Fields(rest)[0]
}

// TestQuorum lets our quorum and that of a library contend for a lock on three servers. One of them is
// killed on the way.
func TestQuorum(t *testing.T) {
	withQuorums := slices.DeleteFunc(runtimes(), func(r runtime) bool { return !r.quorums })
	inTurn(t, withQuorums, func(t *testing.T, r runtime) {
		var addrs []string
		var stores []driver.Store
		var servers []*testredis.Server
		for range 3 {
			server := testredis.Start(t)
			store, err := redlock.New(server.Client(t), nil)
			require.NoError(t, err)
			addrs, stores, servers = append(addrs, server.Addr()), append(stores, store), append(servers, server)
		}
		quorum, err := quorumstore.New(stores...)
		require.NoError(t, err)
		client, rdb := clientOn(t, quorum, long), servers[0].Client(t)
		p := start(t, r.command(t), strings.Join(addrs, ","))
		contend(t, p, client, rdb, r.name, "three servers", report.Rounds(10))

		key := rand.Text()
		held, err := client.Mutex(key).TryLock(t.Context())
		require.NoError(t, err)
		servers[2].Kill()
		assert.False(t, p.ask(request{Do: "acquire", Key: key, TTL: long.Milliseconds()}).Held, "we have two of three")
		require.NoError(t, held.Unlock(t.Context()))
		require.True(t, p.ask(request{Do: "acquire", Key: key, TTL: long.Milliseconds(), Wait: enough.Milliseconds()}).Held)
		_, err = client.Mutex(key).TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.True(t, p.ask(request{Do: "release", Key: key}).Held)
	})
}

// contend lets both sides take and release a lock, ours until both have done their rounds. Each
// increments a counter by a read and a write, so two holders at a time lose an update.
func contend(t *testing.T, p *peer, client *lock.Client, rdb *redis.Client, name, what string, rounds int) {
	t.Helper()
	key, counter := rand.Text(), rand.Text()
	began := time.Now()
	var theirs, ours [][2]int64
	turn := func() {
		turn, err := round(t.Context(), client.Mutex(key), rdb, counter)
		require.NoError(t, err)
		ours = append(ours, turn)
	}
	turn() // before those of the peer, and one is under way when the peer ends: it takes over at least once, and we do
	done := make(chan error, 1)
	go func() {
		a, err := p.try(request{Do: "rounds", Key: key, TTL: long.Milliseconds(), N: rounds, Counter: counter})
		theirs = a.Turns
		done <- err
	}()
	for len(ours) < rounds || len(done) == 0 && time.Since(began) < limit {
		turn()
	}
	require.Len(t, done, 1, "the peer has not finished")
	require.NoError(t, <-done)
	require.Len(t, theirs, rounds)
	n, err := rdb.Get(t.Context(), counter).Int()
	require.NoError(t, err)
	assert.Equal(t, len(theirs)+len(ours), n, "two holders at a time lose an update")
	toThem, toUs := handOvers(theirs, ours)
	assert.NotEmpty(t, toThem, "both sides contended")
	assert.NotEmpty(t, toUs, "both sides contended")
	report.Contended(name, what, rounds, time.Since(began))
	report.HandOvers(name, what, toThem, toUs)
}

// round returns when the turn of one round began and ended, in Unix nanoseconds.
func round(ctx context.Context, mutex *lock.Mutex, rdb *redis.Client, counter string) (turn [2]int64, err error) {
	held, err := mutex.Lock(ctx)
	if err != nil {
		return turn, err
	}
	begin := time.Now().UnixNano()
	if err := increment(ctx, rdb, counter); err != nil {
		return turn, err
	}
	turn = [2]int64{begin, time.Now().UnixNano()}
	return turn, held.Unlock(ctx)
}

// handOvers returns the times from the release of one side to the next turn of the other.
func handOvers(theirs, ours [][2]int64) (toThem, toUs []time.Duration) {
	type turn struct {
		begin, end int64
		ours       bool
	}
	var turns []turn
	for _, t := range theirs {
		turns = append(turns, turn{t[0], t[1], false})
	}
	for _, t := range ours {
		turns = append(turns, turn{t[0], t[1], true})
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.begin, b.begin) })
	for i, next := range turns[min(1, len(turns)):] {
		took := time.Duration(next.begin - turns[i].end)
		switch {
		case next.ours == turns[i].ours:
		case next.ours:
			toUs = append(toUs, took)
		default:
			toThem = append(toThem, took)
		}
	}
	return toThem, toUs
}
