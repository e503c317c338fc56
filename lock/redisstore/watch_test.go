package redisstore

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// yieldingFor returns a request that yields, with a TTL that no test outlasts.
func yieldingFor(key string, mode driver.Mode) driver.Request {
	r := requestFor(key, time.Hour)
	r.Mode, r.Attrs = mode, &driver.Attrs{Yields: true}
	return r
}

// watched watches for those who wait, and returns when the store has asked whether some did before. The channel has an
// element for each call.
func watched(t testing.TB, s *Store, rdb *redis.Client, l driver.Lease) chan struct{} {
	t.Helper()
	require.Equal(t, renewed, renew(t, s, l)) // loads the script
	told, before := make(chan struct{}, 100), asksOf(t, rdb)
	t.Cleanup(s.Watch(l, func() { told <- struct{}{} }))
	require.Eventually(t, func() bool { return asksOf(t, rdb) > before }, long, time.Millisecond)
	return told
}

// asksOf returns how many times the server has executed a command that only renewals use: of mutexes or of shared locks.
func asksOf(t testing.TB, rdb *redis.Client) (n int) {
	t.Helper()
	for _, command := range []string{"mget", "zrevrange"} {
		_, stats, _ := strings.Cut(rdb.Info(t.Context(), "commandstats").Val(), "cmdstat_"+command+":calls=")
		number, _, _ := strings.Cut(stats, ",")
		calls, _ := strconv.Atoi(number) // 0 if there are none
		n += calls
	}
	return n
}

// proven waits until the subscription has sent a message to itself, which it does once.
func proven(t testing.TB, s *Store, rdb *redis.Client) {
	t.Helper()
	acquire(t, s, requestFor("other", time.Hour))
	startWait(t.Context(), t, s, requestFor("other", time.Hour))
	require.Eventually(t, func() bool { return strings.Contains(rdb.Info(t.Context(), "commandstats").Val(), "cmdstat_publish:") }, long, 10*time.Millisecond)
}

// commandsOf returns how often the server has executed each command since f began.
func commandsOf(t testing.TB, rdb *redis.Client, f func()) map[string]string {
	t.Helper()
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	f()
	count := map[string]string{}
	for line := range strings.Lines(rdb.Info(t.Context(), "commandstats").Val()) {
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if n, _, _ := strings.Cut(stats, ","); ok && name != "info" && !strings.HasPrefix(name, "config") && name != "ping" && name != "zscore" && name != "pttl" { // PTTL depends on the version, and on the millisecond
			count[name] = n
		}
	}
	return count
}

// A lock that does not yield costs what it did before there were such locks.
func TestALockThatDoesNotYieldCostsNoMore(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := patient(t, rdb)
	pair := func(attrs *driver.Attrs) {
		r := requestFor("k", time.Hour)
		r.Attrs = attrs
		l := acquire(t, s, r)
		require.Equal(t, renewed, renew(t, s, l))
		require.NoError(t, s.Release(t.Context(), l))
	}
	pair(nil)
	want := map[string]string{"evalsha": "3", "exists": "2", "get": "2", "time": "1", "set": "2", "del": "1", "mget": "1", "pexpire": "1"}
	assert.Equal(t, want, commandsOf(t, rdb, func() { pair(nil) }))
	want["exists"] = "3"
	assert.Equal(t, want, commandsOf(t, rdb, func() { pair(&driver.Attrs{Yields: true}) }), "a renewal looks at the queue")

	proven(t, s, rdb)
	l := acquire(t, s, requestFor("k", time.Hour))
	assert.NotContains(t, commandsOf(t, rdb, func() { startWait(t.Context(), t, s, requestFor("k", time.Hour)) }), "publish")
	require.Equal(t, renewed, renew(t, s, l))
}

func TestTheFirstWaiterHasOneMessageSent(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := patient(t, rdb)
	proven(t, s, rdb)
	for mode, against := range map[driver.Mode]driver.Mode{driver.Exclusive: driver.Exclusive, driver.Read: driver.Write, driver.Write: driver.Read} {
		key := mode.String()
		l := acquire(t, s, yieldingFor(key, mode))
		told := watched(t, s, rdb, l)
		assert.Empty(t, told)
		waits := func() {
			r := requestFor(key, time.Hour)
			r.Mode = against
			startWait(t.Context(), t, s, r)
		}
		assert.Equal(t, "1", commandsOf(t, rdb, func() {
			waits()
			select {
			case <-told:
			case <-time.After(long):
				require.Fail(t, "the holder is not told", key)
			}
		})["publish"], key)
		assert.NotContains(t, commandsOf(t, rdb, waits), "publish", "%s: the holder knows", key)
	}
}

// The answer to a renewal has the news if the message is lost.
func TestARenewalHasTheNewsOfALostMessage(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	if !hasUsers(t, rdb) {
		t.Skip("the server has no users")
	}
	user := testredis.ChannelRules("acl", "setuser", "silent", "reset", "on", ">pw", "~*", "&*", "+@all", "-publish")
	require.NoError(t, rdb.Do(t.Context(), user...).Err())
	silent := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "silent", Password: "pw"})
	defer silent.Close()
	s := patient(t, rdb)
	waiters := newStore(t, silent, &Options{Prefix: s.prefix, Place: time.Hour})
	for mode, against := range map[driver.Mode]driver.Mode{driver.Exclusive: driver.Exclusive, driver.Read: driver.Write, driver.Write: driver.Read} {
		key := mode.String()
		l, other := acquire(t, s, yieldingFor(key, mode)), acquire(t, s, yieldingFor("other "+key, mode))
		told, toldOther := watched(t, s, rdb, l), watched(t, s, rdb, other)
		r := requestFor(key, time.Hour)
		r.Mode = against
		startWait(t.Context(), t, waiters, r)
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, told, "the message is lost")
		assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Lost, renewal.Renewed}, renew(t, s, other, driver.Lease{Request: r, Token: 1}, l))
		assert.Len(t, told, 1)
		assert.Empty(t, toldOther)
		require.Equal(t, renewed, renew(t, s, l))
		assert.Len(t, told, 1, "once is enough")
	}
	c, err := lock.New(newStore(t, rdb, &Options{Prefix: s.prefix}), &lock.Options{Terms: lock.Terms{TTL: 3 * time.Second, Yields: true}})
	require.NoError(t, err)
	held, err := c.Mutex("client").Lock(t.Context())
	require.NoError(t, err)
	startWait(t.Context(), t, waiters, requestFor("client", time.Hour))
	select {
	case <-held.Wanted():
	case <-time.After(3 * time.Second):
		require.Fail(t, "no renewal has told the holder")
	}
	require.NoError(t, c.Close(t.Context()))
}

// A new connection may have missed a message, so the store asks.
func TestAHolderIsToldAfterABrokenSubscription(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := patient(t, rdb)
	l := acquire(t, s, yieldingFor("k", driver.Exclusive))
	told := watched(t, s, rdb, l)
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Do(t.Context(), "client", "kill", "type", "pubsub")
		k, r := s.keys("k", "w:1"), requestFor("k", time.Hour)
		args := []any{"eval", acquireScript.Source(), 5}
		for _, key := range all(k) {
			args = append(args, key)
		}
		p.Do(t.Context(), append(args, "w:1", r.TTL.Milliseconds(), time.Hour.Milliseconds())...)
		return nil
	})
	require.NoError(t, err)
	select {
	case <-told:
	case <-time.After(long):
		require.Fail(t, "the holder is not told")
	}
}

func TestAWatchLeavesNothing(t *testing.T) {
	t.Parallel()
	s, _ := sharedStore(t)
	writer := acquire(t, s, yieldingFor("k", driver.Write))
	stopWriter := s.Watch(writer, func() {})
	reader := writer
	reader.Mode = driver.Read
	stopReader := s.Watch(reader, func() {})
	stopWriter()
	assert.Len(t, s.watches.of, 1, "that of the reader")
	stopReader()
	assert.Empty(t, s.watches.of)
	plain := acquire(t, s, request("plain"))
	s.Watch(plain, func() {})()
	permit := yieldingFor("permit", driver.Permit)
	permit.Attrs = &driver.Attrs{Limit: 1, Yields: true}
	s.Watch(acquire(t, s, permit), func() {})
	assert.Empty(t, s.watches.of)
}

// A key that has lost its expiry must not get the short one of a question. The next renewal gives it its own.
func TestAQuestionGivesNoExpiry(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := patient(t, rdb)
	for _, mode := range []driver.Mode{driver.Exclusive, driver.Write} {
		l := acquire(t, s, yieldingFor(mode.String(), mode))
		require.Equal(t, renewed, renew(t, s, l)) // loads the script
		keys := rdb.Keys(t.Context(), s.prefix+"*").Val()
		for _, key := range keys {
			require.NoError(t, rdb.Persist(t.Context(), key).Err())
		}
		before := asksOf(t, rdb)
		t.Cleanup(s.Watch(l, func() {}))
		require.Eventually(t, func() bool { return asksOf(t, rdb) > before }, long, time.Millisecond)
		for _, key := range keys {
			left := rdb.PTTL(t.Context(), key).Val()
			assert.True(t, left == -1 || left > time.Minute, "%s: %v", key, left)
		}
		require.Equal(t, renewed, renew(t, s, l))
	}
}

func TestAWatchIsInOneQuestionAtATime(t *testing.T) {
	t.Parallel()
	s, _ := sharedStore(t)
	l := acquire(t, s, yieldingFor("k", driver.Exclusive))
	w := &watch{lease: l}
	s.watches.of = map[string]*watch{l.State.(*leaseState).value: w}
	s.watches.asking = true // as if a question was under way
	for range 3 {
		s.ask(w)
	}
	assert.Len(t, s.watches.asks, 1)
	assert.Len(t, s.watches.next(), 1)
	s.ask(w)
	clear(s.watches.of) // stopped
	assert.Empty(t, s.watches.next())
	assert.False(t, s.watches.asking)
}
