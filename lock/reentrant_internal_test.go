package lock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The instant at which the last handle has been counted out and the lease has not
// ended yet is too short to be met from outside.
func TestNobodyEntersAfterTheLastHandle(t *testing.T) {
	_, err := new(holding).enter(nil)
	require.ErrorIs(t, err, ErrNotHeld)
}
