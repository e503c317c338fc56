//go:build !race

package redisstore

import (
	"context"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// redislock needs 33 objects for such a pair, without a watchdog, a token or a queue. The
// ceilings leave room for one more object and a few more bytes.
func TestALockAndItsUnlockAllocateFewObjects(t *testing.T) {
	const pairs, mostObjects, mostBytes = 1000, 36, 1900
	rdb := shared.Server(t).Client(t)
	s := newStore(t, rdb, &Options{Prefix: defaultPrefix})
	c, err := lock.New(s, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := c.Mutex("allocs")
	for name, lockIt := range map[string]func(context.Context) (*lock.Held, error){"TryLock": m.TryLock, "Lock": m.Lock} {
		pair := func() {
			held, err := lockIt(ctx)
			require.NoError(t, err)
			require.NoError(t, held.Unlock(ctx))
		}
		objects := testing.AllocsPerRun(pairs, pair)
		bytes := uint64(math.MaxUint64)
		for range 3 { // the rest of the process allocates too
			bytes = min(bytes, bytesPerRun(pairs, pair))
		}
		t.Logf("%s and Unlock: %v objects, %d bytes", name, objects, bytes)
		assert.LessOrEqual(t, objects, float64(mostObjects), name)
		assert.LessOrEqual(t, bytes, uint64(mostBytes), name)
	}
}

// bytesPerRun returns how many bytes a run of f allocates.
func bytesPerRun(runs int, f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / uint64(runs)
}
