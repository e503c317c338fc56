package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestInvalidRequestsAreRefusedWithoutIO(t *testing.T) {
	s, rdb := sharedStore(t)
	good := request("k")
	for want, change := range map[error]func(*driver.Request){
		driver.ErrBadKey:      func(r *driver.Request) { r.Key = "" },
		driver.ErrBadTTL:      func(r *driver.Request) { r.TTL = time.Millisecond - 1 },
		errors.ErrUnsupported: func(r *driver.Request) { r.Mode = 7 },
	} {
		r := good
		change(&r)
		_, err := s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r}), want)
		require.ErrorIs(t, unknown(t.Context(), t, s, driver.Lease{Request: r}), want)
	}
	for _, r := range []driver.Request{
		{Key: "}k", Owner: "o", TTL: ttl30}, {Key: "k", Owner: "", TTL: ttl30}, {Key: "k", Owner: "o}", TTL: ttl30}, {Key: "k", Owner: "o", TTL: -ttl30},
	} {
		_, err := s.Acquire(t.Context(), r)
		require.Error(t, err)
		require.Error(t, s.Release(t.Context(), driver.Lease{Request: r}))
	}
	var none context.Context // nil
	_, err := s.Acquire(none, good)
	require.ErrorContains(t, err, "context is nil")
	require.ErrorContains(t, s.Release(none, driver.Lease{Request: good}), "context is nil")
	require.ErrorContains(t, unknown(none, t, s, driver.Lease{Request: good}), "context is nil")
	assert.Empty(t, keysOf(t, rdb, s.prefix))
}

func TestTheZeroStoreReturnsErrors(t *testing.T) {
	s, r := new(Store), request("k")
	l := driver.Lease{Request: r}
	_, acquired := s.Acquire(t.Context(), r)
	_, waited := s.Wait(t.Context(), r, func() {})
	_, inspected := s.Inspect(t.Context(), "k")
	for _, err := range []error{
		acquired, waited, inspected, s.ForceRelease(t.Context(), "k"), s.Release(t.Context(), l),
		unknown(t.Context(), t, s, l), unknown(t.Context(), t, s, l, l), s.Close(),
	} {
		require.ErrorIs(t, err, rediskit.ErrZeroStore)
	}
	assert.Zero(t, s.Lane(l))
	assert.Empty(t, s.Describe().Addresses)
}

func TestErrorsNameTheKeyAndNotTheOwner(t *testing.T) {
	s, rdb := sharedStore(t)
	key := "a\x00\n" + strings.Repeat("k", 1000)
	spoil(t, rdb, s.lockKey(key))
	r := request(key)
	_, err := s.Acquire(t.Context(), r)
	require.ErrorContains(t, err, `redisstore: acquire "a\x00\nkkk`)
	assert.Less(t, len(err.Error()), 400)
	secretless(t, err, r.Owner)
	require.EqualError(t, s.Release(t.Context(), driver.Lease{Request: request("k")}), `redisstore: release "k": not held`)
	spoil(t, rdb, s.lockKey("k"))
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrWrongType)
	require.EqualError(t, err, `redisstore: acquire "k": the key "`+s.lockKey("k")+`" of Redis holds a list that is no part of a lock of this kind; use another name or Options.Prefix`)
}

func TestRenewALeaseFromAnotherStore(t *testing.T) {
	s, _ := sharedStore(t)
	l := acquire(t, s, request("k"))
	require.NotNil(t, l.State)
	bare := driver.Lease{Request: l.Request, Token: l.Token} // as if from another process
	changed := l
	changed.Key = "j"
	older := l
	older.Token--
	stranger := l
	stranger.Owner = strings.Repeat("s", len(l.Owner))
	foreign := l
	foreign.State = s.newState(&driver.Request{Key: "other", Owner: "x"}, 1)
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed, renewal.Lost, renewal.Lost, renewal.Lost, renewal.Renewed},
		renew(t, s, l, bare, changed, older, stranger, foreign))

	other := newStore(t, shared.Server(t).Client(t), nil)
	assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, other, l), "a store with another prefix has another lock")
}

func TestStoreTouchesOnlyItsOwnKeys(t *testing.T) {
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
	require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrNotHeld)
	for i, key := range foreign {
		got, err := rdb.Get(t.Context(), key).Int()
		require.NoError(t, err, "%q", key)
		assert.Equal(t, i, got, "%q", key)
		assert.Equal(t, time.Duration(-1), rdb.PTTL(t.Context(), key).Val(), "%q", key)
	}
}
