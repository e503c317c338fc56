package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 30 * time.Second

var errIO = errors.New("connection reset")

// bubble runs a test in virtual time with a client of a store in memory that
// fails as the test says, and that cannot wait.
func bubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	bubbleWith(t, nil, test)
}

func bubbleWith(t *testing.T, o *lock.Options, test func(t *testing.T, b *bench)) {
	t.Helper()
	bubbleOn(t, o, false, test)
}

// waiting is bubbleWith on a store that can wait.
func waiting(t *testing.T, o *lock.Options, test func(t *testing.T, b *bench)) {
	t.Helper()
	bubbleOn(t, o, true, test)
}

func bubbleOn(t *testing.T, o *lock.Options, waits bool, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		b := &bench{t: t, mem: mem, count: map[locktest.Op]int{}}
		b.store = &locktest.Faulty{Store: mem, Before: b.before, After: b.after}
		if !waits {
			b.store.Store = struct{ lock.Store }{mem}
		}
		client, err := lock.New(b.store, o)
		require.NoError(t, err)
		b.Client = client
		defer func() {
			b.heal()
			if err := client.Close(context.Background()); !errors.Is(err, lock.ErrClosed) {
				require.NoError(t, err)
			}
			synctest.Wait()
		}()
		test(t, b)
	})
}

// bench is a client on a store whose faults and counts the test controls.
type bench struct {
	*lock.Client
	t     *testing.T
	mem   *memstore.Store
	store *locktest.Faulty

	mu         sync.Mutex // guards all below
	count      map[locktest.Op]int
	beforeFunc func(ctx context.Context, op locktest.Op) error
	afterFunc  func(ctx context.Context, op locktest.Op) error
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

func always(op locktest.Op, err error) func(context.Context, locktest.Op) error {
	return func(_ context.Context, got locktest.Op) error {
		if got == op {
			return err
		}
		return nil
	}
}

// once fails the first call of an operation.
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

// panics is a store that does so when it is asked for an operation.
func panics(op locktest.Op) func(context.Context, locktest.Op) error {
	return func(_ context.Context, got locktest.Op) error {
		if got == op {
			panic("oops")
		}
		return nil
	}
}

// hang blocks an operation until its ctx ends.
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
