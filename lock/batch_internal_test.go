package lock

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// If several leases of the context hold a member, the innermost lease counts.
func TestABatchIsLookedForUntilItIsFound(t *testing.T) {
	outer := &ctxOwner{members: []string{"a", "b", "c"}}
	outer.outer = outer // a search beyond outer never ends
	inner := &ctxOwner{members: []string{"c", "d"}, outer: outer}
	parts, rest := partsOf(inner, []string{"a", "c", "d"})
	assert.Empty(t, rest)
	assert.Equal(t, []part{{inner, []string{"c", "d"}}, {outer, []string{"a"}}}, parts)
}
