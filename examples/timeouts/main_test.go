package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// On a busy machine a request that would be answered may time out too.
func TestRequestsTimeOut(t *testing.T) {
	const requests = 500
	var out exampletest.Output
	require.NoError(t, run(t.Context(), []string{"-requests", fmt.Sprint(requests), "-timeout", "3s"}, &out))
	var answers, timeouts, failures, pending int
	_, err := fmt.Sscanf(out.String(), "%d answers, %d timeouts, %d failures, %d timers pending", &answers, &timeouts, &failures, &pending)
	require.NoError(t, err, out.String())
	assert.Equal(t, requests, answers+timeouts)
	assert.GreaterOrEqual(t, timeouts, requests/10)
	assert.Zero(t, failures)
	assert.Zero(t, pending)
}
