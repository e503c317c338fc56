package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/memstore"
)

// lostMeanwhile is a handle whose lease is lost after a Multi has asked for its Err.
type lostMeanwhile struct{ handle }

func (lostMeanwhile) err() error    { return nil }
func (lostMeanwhile) detach() error { return ErrLost }

// A loss while Detach runs must not leave locks that are detached, although Detach has failed,
// nor locks that are renewed for ever, although it has not.
func TestALossWhileAMultiIsDetached(t *testing.T) {
	for name, nested := range map[string]bool{"flat": false, "nested": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				store := memstore.New()
				c, err := New(store, nil)
				require.NoError(t, err)
				var all []*Held
				for _, key := range []string{"a", "b", "c"} {
					h, err := c.Mutex(key).Lock(ctx)
					require.NoError(t, err)
					all = append(all, h)
				}
				lost := &Held{handle: lostMeanwhile{all[1].handle}}
				h := newMultiHandle([]*Held{all[0], lost, all[2]})
				if nested {
					inner := newMultiHandle([]*Held{all[0], lost})
					h = newMultiHandle([]*Held{inner, all[2]})
					defer func() { require.ErrorIs(t, inner.Detach(), ErrNotHeld, "it is used up") }()
				}
				require.NoError(t, h.Detach())
				require.ErrorIs(t, h.Err(), ErrDetached)
				for _, other := range []*Held{all[0], all[2]} {
					require.ErrorIs(t, other.Err(), ErrDetached)
				}
				require.ErrorIs(t, h.Unlock(ctx), ErrNotHeld)
				require.NoError(t, all[1].Unlock(ctx), "the member that is not detached can be released")
				time.Sleep(defaultTTL)
				assert.Zero(t, store.Len(), "nothing is renewed")
				require.NoError(t, c.Close(ctx))
			})
		})
	}
}

// The end of a Multi and Detach decide in one step which of them was first.
func TestALossJustBeforeAMultiIsDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := memstore.New()
		c, err := New(store, nil)
		require.NoError(t, err)
		a, err := c.Mutex("a").Lock(ctx)
		require.NoError(t, err)
		h := newMultiHandle([]*Held{a})
		loss := errors.New("a loss that the members do not show any more")
		h.handle.(*multiHandle).end(loss)
		require.ErrorIs(t, h.Detach(), loss)
		require.NoError(t, a.Err(), "nothing is detached")
		require.NoError(t, h.Unlock(ctx))
		assert.Zero(t, store.Len())
		require.NoError(t, c.Close(ctx))
	})
}
