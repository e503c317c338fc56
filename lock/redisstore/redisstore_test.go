package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestNewRefuses(t *testing.T) {
	good := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer good.Close()
	for _, wrong := range []struct {
		field string
		o     Options
	}{
		{"Options.Prefix", Options{Prefix: "a{b"}},
		{"Options.Prefix", Options{Prefix: "a}b"}},
		{"Options.Timeout", Options{Timeout: -1}},
		{"Options.PoolSize", Options{PoolSize: -1}},
	} {
		_, err := New(good, &wrong.o)
		require.ErrorContains(t, err, wrong.field)
	}
	_, err := New(nil, nil)
	require.ErrorContains(t, err, "rdb is nil")
	_, err = New((*redis.Client)(nil), nil)
	require.ErrorContains(t, err, "rdb is nil")

	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	_, err = New(cluster, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "ClusterClient")
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	_, err = New(ring, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestTheDefaults(t *testing.T) {
	s := newStore(t, shared.Server(t).Client(t), &Options{})
	assert.Equal(t, "lw:", s.prefix)
	assert.Equal(t, 3*time.Second, s.timeout)
	assert.Equal(t, 16, s.rdb.Options().PoolSize)
}

func TestTheDerivedClient(t *testing.T) {
	given := &redis.Options{
		Addr: "example.invalid:1", Username: "u", Password: "p", DB: 3, ClientName: "app", MaxRetries: 7,
		ReadTimeout: time.Minute, PoolSize: 500, MinIdleConns: 100, DialTimeout: time.Hour, DialerRetries: 9, ConnMaxLifetime: time.Hour,
		Limiter: limiter{}, ClientSideCacheConfig: &redis.ClientSideCacheConfig{},
	}
	rdb := redis.NewClient(derive(given, 5))
	defer rdb.Close()
	o := rdb.Options()
	assert.Equal(t, []any{"example.invalid:1", "u", "p", 3, "app", time.Hour},
		[]any{o.Addr, o.Username, o.Password, o.DB, o.ClientName, o.ConnMaxLifetime}, "taken over")
	assert.Equal(t, 0, o.MaxRetries, "none")
	assert.True(t, o.ContextTimeoutEnabled)
	assert.Zero(t, o.ReadTimeout, "none")
	assert.Zero(t, o.WriteTimeout, "none")
	assert.Equal(t, time.Second, o.DialTimeout)
	assert.Equal(t, 1, o.DialerRetries)
	assert.Equal(t, 5, o.PoolSize)
	assert.Equal(t, 4, o.PipelinePoolSize)
	assert.Zero(t, o.MinIdleConns)
	assert.True(t, o.DisableIdentity)
	assert.Nil(t, o.Limiter)
	assert.Nil(t, o.ClientSideCacheConfig)
	assert.Equal(t, 7, given.MaxRetries, "the given ones are as they were")
}

// limiter stands for one that has had enough.
type limiter struct{}

func (limiter) Allow() error       { return errors.New("enough") }
func (limiter) ReportResult(error) {}

func TestTheGivenClientStaysOpen(t *testing.T) {
	rdb := shared.Server(t).Client(t)
	s := newStore(t, rdb, nil)
	l := acquire(t, s, request("k"))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "twice")
	require.NoError(t, rdb.Ping(t.Context()).Err())

	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, lock.ErrClosed)
	require.ErrorIs(t, s.Release(t.Context(), l), lock.ErrClosed)
	require.ErrorIs(t, unknown(t.Context(), t, s, l), lock.ErrClosed)
	_, err = s.Inspect(t.Context(), "k")
	require.ErrorIs(t, err, lock.ErrClosed)
	require.ErrorIs(t, s.ForceRelease(t.Context(), "k"), lock.ErrClosed)
}

func TestBadInputIsRefusedWithoutIO(t *testing.T) {
	s, rdb := sharedStore(t)
	good := request("k")
	for want, change := range map[error]func(*lock.Request){
		lock.ErrBadKey:        func(r *lock.Request) { r.Key = "" },
		lock.ErrBadTTL:        func(r *lock.Request) { r.TTL = time.Millisecond - 1 },
		errors.ErrUnsupported: func(r *lock.Request) { r.Mode = 7 },
	} {
		r := good
		change(&r)
		_, err := s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, s.Release(t.Context(), lock.Lease{Request: r}), want)
		require.ErrorIs(t, unknown(t.Context(), t, s, lock.Lease{Request: r}), want)
	}
	for _, r := range []lock.Request{
		{Key: "}k", Owner: "o", TTL: ttl30}, {Key: "k", Owner: "", TTL: ttl30}, {Key: "k", Owner: "o}", TTL: ttl30}, {Key: "k", Owner: "o", TTL: -ttl30},
	} {
		_, err := s.Acquire(t.Context(), r)
		require.Error(t, err)
		require.Error(t, s.Release(t.Context(), lock.Lease{Request: r}))
	}
	var none context.Context // nil
	_, err := s.Acquire(none, good)
	require.ErrorContains(t, err, "context is nil")
	require.ErrorContains(t, s.Release(none, lock.Lease{Request: good}), "context is nil")
	require.ErrorContains(t, unknown(none, t, s, lock.Lease{Request: good}), "context is nil")
	assert.Empty(t, keysOf(t, rdb, s.prefix))
}

func TestErrorsNameTheKeyAndNotTheOwner(t *testing.T) {
	s, rdb := sharedStore(t)
	key := "a\x00\n" + strings.Repeat("k", 1000)
	spoil(t, rdb, s.lockKey(key))
	r := request(key)
	_, err := s.Acquire(t.Context(), r)
	require.ErrorContains(t, err, `redisstore: acquire "a\x00\nkkk`)
	assert.Less(t, len(err.Error()), 300)
	secretless(t, err, r.Owner)
	require.ErrorContains(t, s.Release(t.Context(), lock.Lease{Request: request("k")}), `redisstore: release "k"`)
}

func TestALeaseOfAnotherMakeIsRenewed(t *testing.T) {
	s, _ := sharedStore(t)
	l := acquire(t, s, request("k"))
	require.NotNil(t, l.State)
	bare := lock.Lease{Request: l.Request, Token: l.Token} // as from another process
	changed := l
	changed.Key = "j"
	older := l
	older.Token--
	stranger := l
	stranger.Owner = strings.Repeat("s", len(l.Owner))
	foreign := l
	foreign.State = &state{key: s.lockKey("other"), value: "x 1"}
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed, renewal.Lost, renewal.Lost, renewal.Lost, renewal.Renewed},
		renew(t, s, l, bare, changed, older, stranger, foreign))

	other := newStore(t, s.rdb, nil)
	assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, other, l), "another prefix is another lock")
}

func TestInspectAndForceRelease(t *testing.T) {
	s, rdb := sharedStore(t)
	info, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, Info{}, info)
	require.ErrorIs(t, s.ForceRelease(t.Context(), "k"), lock.ErrNotHeld)

	l := acquire(t, s, request("k"))
	waiter := request("k")
	enqueue(t, s, rdb, waiter)
	info, err = s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	around(t, ttl30, info.ExpiresIn)
	info.ExpiresIn = 0
	assert.Equal(t, Info{Held: true, Token: l.Token, Waiting: 1, LastToken: l.Token}, info)

	require.NoError(t, s.ForceRelease(t.Context(), "k"))
	assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, s, l))
	next := acquire(t, s, waiter)
	assert.Greater(t, next.Token, l.Token, "the next in the queue has it")
	require.NoError(t, s.ForceRelease(t.Context(), "k"))
	info, err = s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, Info{LastToken: next.Token}, info)

	for _, key := range []string{"", "}"} {
		_, err = s.Inspect(t.Context(), key)
		require.ErrorIs(t, err, lock.ErrBadKey)
		require.ErrorIs(t, s.ForceRelease(t.Context(), key), lock.ErrBadKey)
	}
}

func TestAStoreDoesNotOvertakeTheQueue(t *testing.T) {
	s, rdb := sharedStore(t)
	l := acquire(t, s, request("k"))
	waiter := request("k")
	enqueue(t, s, rdb, waiter)
	require.NoError(t, s.Release(t.Context(), l))
	_, err := s.Acquire(t.Context(), request("k"))
	var held *lock.HeldError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, "k", held.Key)
	around(t, 10*time.Second, held.ExpiresIn)
}

func TestReleaseOfAPlaceInTheQueue(t *testing.T) {
	s, rdb := sharedStore(t)
	acquire(t, s, request("k"))
	waiter := request("k")
	enqueue(t, s, rdb, waiter)
	require.ErrorIs(t, s.Release(t.Context(), lock.Lease{Request: waiter}), lock.ErrNotHeld)
	info, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.Zero(t, info.Waiting, "but it has left")
}

func TestARefusedAcquireIsNoLease(t *testing.T) {
	s, rdb := sharedStore(t)
	given := request("given up")
	require.ErrorIs(t, s.Release(t.Context(), lock.Lease{Request: given, Unanswered: true}), lock.ErrNotHeld)
	acquire(t, s, request("held"))
	spoil(t, rdb, s.lockKey("spoiled"))
	for _, r := range []lock.Request{given, request("held"), request("spoiled"), request("")} {
		l, err := s.Acquire(t.Context(), r)
		require.Error(t, err)
		assert.Zero(t, l)
	}
}

func TestCloseWaitsForWhatItEnds(t *testing.T) {
	w := &wire{answer: func([]string) string { time.Sleep(20 * time.Millisecond); return "" }}
	s := newStore(t, w.client(t, redis.Options{}), nil)
	var lingering lingerer
	s.rdb.AddHook(&lingering)
	done := make(chan error)
	go func() {
		_, err := s.Acquire(t.Context(), request("k"))
		done <- err
	}()
	require.Eventually(t, func() bool { return lingering.begun.Load() > 0 }, 5*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	assert.Equal(t, lingering.begun.Load(), lingering.ended.Load())
	require.ErrorIs(t, <-done, lock.ErrClosed)
}

// lingerer is a client whose commands take a while to end.
type lingerer struct{ begun, ended atomic.Int64 }

func (*lingerer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*lingerer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lingerer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l.begun.Add(1)
		err := next(ctx, cmd)
		time.Sleep(50 * time.Millisecond)
		l.ended.Add(1)
		return err
	}
}

func TestNobodyElsesKeysAreTouched(t *testing.T) {
	s, rdb := sharedStore(t)
	pre := s.prefix
	foreign := []string{
		pre, pre + "k", pre + "{k", pre + "k}", pre + "{k}:", pre + "{k}:T", pre + "{k}:x", pre + "{k}:x:", pre + "{k}:t:t",
		"{k}", "k", "{" + pre + "k}", pre + "{k }", pre + "{K}", strings.ToLower(pre) + "{k}", pre + "{{k}}", pre + "{k}:x:somebody",
	}
	for i, key := range foreign {
		require.NoError(t, rdb.Set(t.Context(), key, i, 0).Err())
		defer rdb.Del(context.Background(), key)
	}
	l := acquire(t, s, request("k"))
	renew(t, s, l)
	_, _ = s.Acquire(t.Context(), request("k"))
	require.NoError(t, s.ForceRelease(t.Context(), "k"))
	l.Unanswered = true
	require.ErrorIs(t, s.Release(t.Context(), l), lock.ErrNotHeld)
	for i, key := range foreign {
		got, err := rdb.Get(t.Context(), key).Int()
		require.NoError(t, err, "%q", key)
		assert.Equal(t, i, got, "%q", key)
		assert.Equal(t, time.Duration(-1), rdb.PTTL(t.Context(), key).Val(), "%q", key)
	}
}

func TestMutualExclusionOf64(t *testing.T) {
	t.Parallel()
	s, rdb := sharedStore(t)
	const clients, rounds = 64, 5
	ex := locktest.NewExclusion()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range rounds {
				r := request("k")
				l, err := s.Acquire(t.Context(), r)
				for ; errors.Is(err, lock.ErrNotAcquired); l, err = s.Acquire(t.Context(), r) {
					time.Sleep(rand.N(10 * time.Millisecond)) // else the refused keep the holder from its release
				}
				if !assert.NoError(t, err) {
					return
				}
				ex.Enter("k", l.Token)
				ex.Leave("k", l.Token)
				assert.NoError(t, s.Release(t.Context(), l))
			}
		})
	}
	wg.Wait()
	assert.Empty(t, ex.Violations())
	assert.Equal(t, clients*rounds, ex.Entered())
	assert.Len(t, keysOf(t, rdb, s.prefix), 1, "nothing is left but the last token")
	assert.LessOrEqual(t, int(s.rdb.PoolStats().TotalConns), defaultPoolSize)
}
