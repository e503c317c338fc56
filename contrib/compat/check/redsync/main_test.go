package redsync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	original "github.com/go-redsync/redsync/v4"
	originalredis "github.com/go-redsync/redsync/v4/redis"
	originalgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync"
	compatredis "github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis/goredis/v9"
	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(cluster{m}) }

// shared are the servers of all tests that harm none.
var shared [4]testredis.Shared

// cluster runs the tests and closes the shared servers.
type cluster struct{ m testprocess.Runner }

func (c cluster) Run() int {
	run := c.m
	for i := range shared {
		run = shared[i].Around(run)
	}
	return run.Run()
}

// clients returns clients of n of the shared servers.
func clients(t *testing.T, n int) []*redis.Client {
	all := make([]*redis.Client, n)
	for i := range all {
		all[i] = shared[i].Server(t).Client(t)
	}
	return all
}

var serial atomic.Int64

// newKey returns a key that no other test uses.
func newKey(t *testing.T) string { return fmt.Sprintf("%s-%d", t.Name(), serial.Add(1)) }

// mutex are the methods of a Mutex of either library.
type mutex interface {
	Lock() error
	LockContext(ctx context.Context) error
	TryLock() error
	TryLockContext(ctx context.Context) error
	Unlock() (bool, error)
	UnlockContext(ctx context.Context) (bool, error)
	Extend() (bool, error)
	ExtendContext(ctx context.Context) (bool, error)
	Valid() (bool, error)
	ValidContext(ctx context.Context) (bool, error)
	Name() string
	Value() string
	Until() time.Time
}

// option is an option of either library.
type option struct {
	original original.Option
	ours     redsync.Option
}

// longExpiry gives each try 3 s instead of 0.4 s, which a busy machine needs. Other options may replace it.
var longExpiry = expiry(time.Minute)

func expiry(d time.Duration) option { return option{original.WithExpiry(d), redsync.WithExpiry(d)} }
func tries(n int) option            { return option{original.WithTries(n), redsync.WithTries(n)} }
func delay(d time.Duration) option {
	return option{original.WithRetryDelay(d), redsync.WithRetryDelay(d)}
}

func delayFunc(f func(int) time.Duration) option {
	return option{original.WithRetryDelayFunc(f), redsync.WithRetryDelayFunc(f)}
}
func value(v string) option { return option{original.WithValue(v), redsync.WithValue(v)} }
func genValue(f func() (string, error)) option {
	return option{original.WithGenValueFunc(f), redsync.WithGenValueFunc(f)}
}
func fixedValue(v string) option { return genValue(func() (string, error) { return v, nil }) }
func setNXOnExtend() option      { return option{original.WithSetNXOnExtend(), redsync.WithSetNXOnExtend()} }

func drift(f float64) option {
	return option{original.WithDriftFactor(f), redsync.WithDriftFactor(f)}
}

// library is the original or this package.
type library struct {
	name                          string
	newMutex                      func(clients []*redis.Client, name string, options ...option) mutex
	failed, extendFailed, expired error
}

var libraries = []library{
	{
		name:   "original",
		failed: original.ErrFailed, extendFailed: original.ErrExtendFailed, expired: original.ErrLockAlreadyExpired,
		newMutex: func(clients []*redis.Client, name string, options ...option) mutex {
			var pools []originalredis.Pool
			for _, c := range clients {
				pools = append(pools, originalgoredis.NewPool(c))
			}
			list := []original.Option{longExpiry.original}
			for _, o := range options {
				list = append(list, o.original)
			}
			return original.New(pools...).NewMutex(name, list...)
		},
	},
	{
		name:   "ours",
		failed: redsync.ErrFailed, extendFailed: redsync.ErrExtendFailed, expired: redsync.ErrLockAlreadyExpired,
		newMutex: func(clients []*redis.Client, name string, options ...option) mutex {
			return newMutex(clients, name, options...)
		},
	},
}

// find returns what there is about the first error of either library in err.
func find[Original, Ours error, V any](err error, ofOriginal func(Original) V, ofOurs func(Ours) V) (about V, ok bool) {
	if e, found := errors.AsType[Original](err); found {
		return ofOriginal(e), true
	}
	if e, found := errors.AsType[Ours](err); found {
		return ofOurs(e), true
	}
	return about, false
}

// takenNodes returns the nodes of an ErrTaken.
func takenNodes(err error) ([]int, bool) {
	return find(err, func(e *original.ErrTaken) []int { return e.Nodes }, func(e *redsync.ErrTaken) []int { return e.Nodes })
}

// takenNode returns the node of the first ErrNodeTaken.
func takenNode(err error) (int, bool) {
	return find(err, func(e *original.ErrNodeTaken) int { return e.Node }, func(e *redsync.ErrNodeTaken) int { return e.Node })
}

// redisError returns the first RedisError, as one of this package.
func redisError(err error) (redsync.RedisError, bool) {
	return find(err, func(e *original.RedisError) redsync.RedisError { return redsync.RedisError{Node: e.Node, Err: e.Err} }, func(e *redsync.RedisError) redsync.RedisError { return *e })
}

// newMutex returns a mutex of this package.
func newMutex(clients []*redis.Client, name string, options ...option) *redsync.Mutex {
	var pools []compatredis.Pool
	for _, c := range clients {
		pools = append(pools, goredis.NewPool(c))
	}
	list := []redsync.Option{longExpiry.ours}
	for _, o := range options {
		list = append(list, o.ours)
	}
	return redsync.New(pools...).NewMutex(name, list...)
}

// both runs a test with both libraries.
func both(t *testing.T, test func(t *testing.T, l library)) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// values returns the value of a key on each server, "" if there is none.
func values(t *testing.T, clients []*redis.Client, key string) []string {
	list := make([]string, len(clients))
	for i, c := range clients {
		v, err := c.Get(t.Context(), key).Result()
		if !errors.Is(err, redis.Nil) {
			require.NoError(t, err)
		}
		list[i] = v
	}
	return list
}

// set sets a key without an expiry.
func set(t *testing.T, key, value string, clients ...*redis.Client) {
	for _, c := range clients {
		require.NoError(t, c.Set(t.Context(), key, value, 0).Err())
	}
}

// expire makes a lock expire.
func expire(t *testing.T, key string, clients ...*redis.Client) {
	for _, c := range clients {
		require.NoError(t, c.Del(t.Context(), key).Err())
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

// succeeds checks that each call of a mutex returns true.
func succeeds(t *testing.T, calls ...func() (bool, error)) {
	t.Helper()
	for _, call := range calls {
		ok, err := call()
		assert.NoError(t, err)
		assert.True(t, ok)
	}
}
