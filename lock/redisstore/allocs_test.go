//go:build !race

package redisstore

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// redislock needs 33 objects for such a pair, without a watchdog, a token or a queue. The
// ceilings leave room for two more objects.
func TestALockAndItsUnlockAllocateFewObjects(t *testing.T) {
	s, _ := sharedStore(t)
	c, err := lock.New(s, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := c.Mutex("allocs")
	for name, x := range map[string]struct {
		lock func(context.Context) (*lock.Held, error)
		most float64
	}{
		"TryLock": {m.TryLock, 32},
		"Lock":    {m.Lock, 39},
	} {
		objects := testing.AllocsPerRun(1000, func() {
			held, err := x.lock(ctx)
			require.NoError(t, err)
			require.NoError(t, held.Unlock(ctx))
		})
		t.Logf("%s and Unlock: %v objects", name, objects)
		assert.LessOrEqual(t, objects, x.most, name)
	}
}
