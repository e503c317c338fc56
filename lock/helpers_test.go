package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 30 * time.Second

var errIO = errors.New("connection reset")

// bubble runs a test in virtual time. The client's store is in memory, cannot wait, and fails
// as the test says.
func bubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	bubbleWith(t, nil, test)
}

func bubbleWith(t *testing.T, o *lock.Options, test func(t *testing.T, b *bench)) {
	t.Helper()
	bubbleOn(t, o, false, test)
}

// waiting is bubbleWith with a store that can wait.
func waiting(t *testing.T, o *lock.Options, test func(t *testing.T, b *bench)) {
	t.Helper()
	bubbleOn(t, o, true, test)
}

func bubbleOn(t *testing.T, o *lock.Options, waits bool, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		b := &bench{t: t, mem: mem, count: map[locktest.Op]int{}}
		b.store = (&locktest.Faulty{Before: b.before, After: b.after}).Over(mem)
		if !waits {
			b.store.Over(locktest.Plain(mem))
		}
		client, err := lock.New(b.store, o)
		require.NoError(t, err)
		b.Client = client
		defer func() {
			b.heal()
			if err := client.Close(context.Background()); !b.closed.Load() && !errors.Is(err, lock.ErrClosed) {
				require.NoError(t, err)
			}
			synctest.Wait()
		}()
		test(t, b)
	})
}

// unclosed is a store that outlives its clients.
type unclosed struct{ driver.Store }

func (unclosed) Shutdown(context.Context) error { return nil }

// bench is a client with a store whose faults the test controls and whose calls are counted.
type bench struct {
	*lock.Client
	t     *testing.T
	mem   *memstore.Store
	store *locktest.Faulty

	closed atomic.Bool // by the test itself

	mu         sync.Mutex // guards all below
	count      map[locktest.Op]int
	beforeFunc func(ctx context.Context, op locktest.Op) error
	afterFunc  func(ctx context.Context, op locktest.Op) error
}

// Close closes the client before the end of the test.
func (b *bench) Close(ctx context.Context) error {
	b.closed.Store(true)
	return b.Client.Close(ctx)
}

func (b *bench) before(ctx context.Context, op locktest.Op) error {
	b.mu.Lock()
	b.count[op]++
	f := b.beforeFunc
	b.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, op)
}

func (b *bench) after(ctx context.Context, op locktest.Op) error {
	b.mu.Lock()
	f := b.afterFunc
	b.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, op)
}

// loseRequests makes requests fail before they are executed.
func (b *bench) loseRequests(f func(ctx context.Context, op locktest.Op) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beforeFunc = f
}

// loseAnswers makes requests fail after they were executed.
func (b *bench) loseAnswers(f func(ctx context.Context, op locktest.Op) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.afterFunc = f
}

func (b *bench) heal() {
	b.loseRequests(nil)
	b.loseAnswers(nil)
}

// calls returns how often an operation was called.
func (b *bench) calls(op locktest.Op) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count[op]
}

func (b *bench) lock(key string) *lock.Held {
	b.t.Helper()
	h, err := b.Mutex(key).Lock(context.Background())
	require.NoError(b.t, err)
	return h
}

// taken acquires a lock for another owner.
func (b *bench) taken(key string) driver.Lease {
	b.t.Helper()
	l, err := b.mem.Acquire(context.Background(), driver.Request{Key: key, Owner: "other", TTL: ttl})
	assert.NoError(b.t, err)
	return l
}

func always(op locktest.Op, err error) func(context.Context, locktest.Op) error {
	return func(_ context.Context, got locktest.Op) error {
		if got == op {
			return err
		}
		return nil
	}
}

// once returns a fault that fails the first call of an operation.
func once(op locktest.Op, err error) func(context.Context, locktest.Op) error {
	var mu sync.Mutex // guards done
	done := false
	return func(_ context.Context, got locktest.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if got != op || done {
			return nil
		}
		done = true
		return err
	}
}

// panics returns a fault that panics in an operation.
func panics(op locktest.Op) func(context.Context, locktest.Op) error {
	return func(_ context.Context, got locktest.Op) error {
		if got == op {
			panic("oops")
		}
		return nil
	}
}

// hang returns a fault that blocks an operation until its ctx ends.
func hang(op locktest.Op) func(context.Context, locktest.Op) error {
	return func(ctx context.Context, got locktest.Op) error {
		if got != op {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
