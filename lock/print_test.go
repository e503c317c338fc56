package lock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// The kinds of locks show what they name.
func TestLocksArePrinted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, l := range []struct {
			lock any
			text string
		}{
			{b.Mutex("k"), `mutex "k"`},
			{b.RWMutex("k"), `rwmutex "k"`},
			{b.Reentrant("k"), `reentrant "k"`},
			{b.Semaphore("k", 3), `semaphore "k" of 3 permits`},
			{b.Batch("k", "a", "b"), `batch "k" of 2 members`},
			{b.Election("k", "me"), `election "k" for "me"`},
			{lock.Multi(b.Mutex("a"), b.Semaphore("b", 2)), `multi of mutex "a", semaphore "b" of 2 permits`},
			{lock.Multi(nil), `multi of <nil>`},
			{(*lock.Mutex)(nil), `mutex ""`},
			{(*lock.Batch)(nil), `batch ""`},
			{(*lock.Election)(nil), `election ""`},
			{(*lock.Semaphore)(nil), `semaphore ""`},
			{(*lock.RWMutex)(nil), `rwmutex ""`},
			{(*lock.Reentrant)(nil), `reentrant ""`},
		} {
			assert.Equal(t, l.text, fmt.Sprint(l.lock))
			assert.Equal(t, l.text, fmt.Sprintf("%+v", l.lock))
		}
	})
}

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
