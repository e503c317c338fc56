package apidiff_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/apidiff"
)

const here = "github.com/leasewheel/leasewheel/internal/apidiff/testdata/"

func TestMissing(t *testing.T) {
	missing, err := apidiff.Missing(
		apidiff.Pair{Original: here + "original", Replacement: here + "replacement"},
		apidiff.Pair{Original: here + "original/sub", Replacement: here + "replacement/sub"},
	)
	require.NoError(t, err)
	const p = here + "original"
	assert.Equal(t, []string{
		"const " + p + ".Changed untyped int = 2",
		"var " + p + ".ChangedVar int",
		"type " + p + ".Grown interface{A func()(), variadic: false}",
		"func " + p + ".Missing func()(), variadic: false",
		"field " + p + ".Struct.Embedded " + p + ".Embedded, embedded: true",
		"field " + p + ".Struct.Gone string, embedded: false",
		"method (*" + p + ".Struct) Gone2 func([]int)(error), variadic: true",
		"func " + p + "/sub.Other func(map[string]chan(0) int, [2]" + p + ".Same)(), variadic: false",
	}, missing)

	same, err := apidiff.Missing(apidiff.Pair{Original: "context", Replacement: "context"})
	require.NoError(t, err)
	assert.Empty(t, same)
	_, err = apidiff.Missing(apidiff.Pair{Original: here + "none", Replacement: "context"})
	assert.ErrorContains(t, err, "apidiff: go list: ")
}
