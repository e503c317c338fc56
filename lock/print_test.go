package lock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// A handle shows its key. That it shows no owner is a test of verify/security.
func TestAHandleIsPrinted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, l := range []lock.Locker{b.Mutex("k"), b.Batch("k2", "a"), b.Semaphore("k3", 2), lock.Multi(b.Mutex("x"), b.Mutex("y"))} {
			held, err := l.Lock(t.Context())
			require.NoError(t, err)
			for key := range strings.SplitSeq(held.Key(), ", ") {
				assert.Contains(t, held.String(), `"`+key+`"`)
			}
			assert.Equal(t, held.String(), fmt.Sprintf("%+v", held))
			require.NoError(t, held.Unlock(t.Context()))
		}
	})
	assert.Equal(t, "lock not held", fmt.Sprint(new(lock.Held)))
}
