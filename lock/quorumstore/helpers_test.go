package quorumstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 30 * time.Second

var (
	errIO = errors.New("connection reset")
	ctx   = context.Background()
)

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func lockAll(t *testing.T, l lock.Locker) *lock.Held {
	t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	return h
}

// dice is a random number generator that several goroutines can use.
type dice struct {
	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rng: rand.New(rand.NewPCG(seed, 0))} }

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
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

// far is the fault of a distant store: each request takes 300 ms there and back.
func far(ctx context.Context, _ locktest.Op) error {
	select {
	case <-time.After(150 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// silent is a store whose Renew leaves all outcomes Unknown.
type silent struct{ driver.Store }

func (silent) Renew(context.Context, []driver.Lease, []renewal.Outcome) error { return nil }
