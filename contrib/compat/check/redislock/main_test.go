package redislock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	original "github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/contrib/compat/redislock"
	"github.com/leasewheel/leasewheel/internal/apidiff"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

var shared testredis.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

const (
	theirs = "github.com/bsm/redislock"
	ours   = "github.com/leasewheel/leasewheel/contrib/compat/redislock"
)

// TestTheInterfaceIsComplete compares all exported names with those of the original, as of go.mod.
func TestTheInterfaceIsComplete(t *testing.T) {
	missing, err := apidiff.Missing(apidiff.Pair{Original: theirs, Replacement: ours})
	require.NoError(t, err)
	assert.Empty(t, missing)
}

var serial atomic.Int64

// newKey returns a key that no other test uses.
func newKey(t *testing.T) string { return fmt.Sprintf("%s-%d", t.Name(), serial.Add(1)) }

// held are the methods of a Lock of either library.
type held interface {
	Key() string
	Keys() []string
	Token() string
	Metadata() string
	TTL(ctx context.Context) (time.Duration, error)
	Release(ctx context.Context) error
}

// lease is a lock of either library.
type lease struct {
	held
	refreshWith func(ctx context.Context, ttl time.Duration, o *options) error
}

func (l lease) refresh(ctx context.Context, ttl time.Duration) error {
	return l.refreshWith(ctx, ttl, nil)
}

// options are Options of either library.
type options struct {
	retry           strategy
	token, metadata string
}

// strategy is a RetryStrategy of either library.
type strategy interface{ NextBackoff() time.Duration }

// library is the original or this package.
type library struct {
	name                 string
	notObtained, notHeld error
	obtain               func(ctx context.Context, rdb redis.Scripter, key string, ttl time.Duration, o *options) (lease, error)
	obtainMulti          func(ctx context.Context, rdb redis.Scripter, keys []string, ttl time.Duration, o *options) (lease, error)
	none                 func() strategy
	linear               func(d time.Duration) strategy
	exponential          func(shortest, longest time.Duration) strategy
	limit                func(s strategy, retries int) strategy
	noLock               lease // nil
}

var libraries = []library{
	{
		name: "original", notObtained: original.ErrNotObtained, notHeld: original.ErrLockNotHeld,
		obtain: func(ctx context.Context, rdb redis.Scripter, key string, ttl time.Duration, o *options) (lease, error) {
			got, err := original.New(rdb).Obtain(ctx, key, ttl, o.original())
			return originalLease(got), err
		},
		obtainMulti: func(ctx context.Context, rdb redis.Scripter, keys []string, ttl time.Duration, o *options) (lease, error) {
			got, err := original.ObtainMulti(ctx, rdb, keys, ttl, o.original())
			return originalLease(got), err
		},
		none:        func() strategy { return original.NoRetry() },
		linear:      func(d time.Duration) strategy { return original.LinearBackoff(d) },
		exponential: func(a, b time.Duration) strategy { return original.ExponentialBackoff(a, b) },
		limit:       func(s strategy, n int) strategy { return original.LimitRetry(s, n) },
		noLock:      originalLease(nil),
	},
	{
		name: "ours", notObtained: redislock.ErrNotObtained, notHeld: redislock.ErrLockNotHeld,
		obtain: func(ctx context.Context, rdb redis.Scripter, key string, ttl time.Duration, o *options) (lease, error) {
			got, err := redislock.Obtain(ctx, rdb, key, ttl, o.ours())
			return ourLease(got), err
		},
		obtainMulti: func(ctx context.Context, rdb redis.Scripter, keys []string, ttl time.Duration, o *options) (lease, error) {
			got, err := redislock.ObtainMulti(ctx, rdb, keys, ttl, o.ours())
			return ourLease(got), err
		},
		none:        func() strategy { return redislock.NoRetry() },
		linear:      func(d time.Duration) strategy { return redislock.LinearBackoff(d) },
		exponential: func(a, b time.Duration) strategy { return redislock.ExponentialBackoff(a, b) },
		limit:       func(s strategy, n int) strategy { return redislock.LimitRetry(s, n) },
		noLock:      ourLease(nil),
	},
}

func originalLease(l *original.Lock) lease {
	return lease{l, func(ctx context.Context, ttl time.Duration, o *options) error {
		return l.Refresh(ctx, ttl, o.original())
	}}
}

func ourLease(l *redislock.Lock) lease {
	return lease{l, func(ctx context.Context, ttl time.Duration, o *options) error { return l.Refresh(ctx, ttl, o.ours()) }}
}

func (o *options) original() *original.Options {
	if o == nil {
		return nil
	}
	return &original.Options{RetryStrategy: o.retry, Token: o.token, Metadata: o.metadata}
}

func (o *options) ours() *redislock.Options {
	if o == nil {
		return nil
	}
	return &redislock.Options{RetryStrategy: o.retry, Token: o.token, Metadata: o.metadata}
}

// both runs a test with both libraries.
func both(t *testing.T, test func(t *testing.T, l library)) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// together runs n functions at the same time.
func together(n int, f func(i int)) {
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { f(i) })
	}
	running.Wait()
}
