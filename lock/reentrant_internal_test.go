package lock

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// The last handle is gone, but the lease has not ended yet. This moment is too short for a test
// from outside.
func TestNobodyEntersAfterTheLastHandle(t *testing.T) {
	_, err := new(heldLease).enter(nil)
	require.ErrorIs(t, err, ErrNotHeld)
}

func TestTheLookForAnOwnershipAllocatesNothing(t *testing.T) {
	c := &Client{core: new(core)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	owner := &ctxOwner{held: new(Held), key: "k", mode: driver.Exclusive, outer: &ctxOwner{held: new(Held), key: "j"}}
	ctx = context.WithValue(ctx, ctxOwnerKey{c.core}, owner)
	assert.Same(t, owner.outer, c.owners(ctx).find("j", driver.Exclusive))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if c.waitsForItself(ctx, driver.Request{Key: "other"}) {
			panic("the key is not held")
		}
	}))
}

// If several leases of the context hold a member, the innermost lease counts.
func TestABatchIsLookedForUntilItIsFound(t *testing.T) {
	outer := &ctxOwner{members: []string{"a", "b", "c"}}
	outer.outer = outer // a search beyond outer never ends
	inner := &ctxOwner{members: []string{"c", "d"}, outer: outer}
	parts, rest := partsOf(inner, []string{"a", "c", "d"})
	assert.Empty(t, rest)
	assert.Equal(t, []part{{inner, []string{"c", "d"}}, {outer, []string{"a"}}}, parts)
}
