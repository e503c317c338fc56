package redsync_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/apidiff"
)

const (
	theirs = "github.com/go-redsync/redsync/v4"
	ours   = "github.com/leasewheel/leasewheel/compat/redsync"
)

// TestTheInterfaceIsComplete compares all exported names with those of the original, as of go.mod.
func TestTheInterfaceIsComplete(t *testing.T) {
	missing, err := apidiff.Missing(
		apidiff.Pair{Original: theirs, Replacement: ours},
		apidiff.Pair{Original: theirs + "/redis", Replacement: ours + "/redis"},
		apidiff.Pair{Original: theirs + "/redis/goredis/v9", Replacement: ours + "/redis/goredis/v9"},
	)
	require.NoError(t, err)
	assert.Empty(t, missing)
}
