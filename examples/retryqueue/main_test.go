package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestMessagesAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out exampletest.Output
		began := time.Now()
		require.NoError(t, run(t.Context(), []string{"-messages", "100", "-first", "1s"}, &out))
		assert.Equal(t, 100, strings.Count(out.String(), " at try 3\n"))
		took := time.Since(began)
		assert.Greater(t, took, 2*time.Second, "pauses of up to 1 s and 2 s, at least half of that")
		assert.LessOrEqual(t, took, 3*time.Second)
	})
}

func TestTheEndLeavesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var out exampletest.Output
		ended := make(chan error)
		go func() { ended <- run(ctx, []string{"-messages", "5", "-first", "1h"}, &out) }()
		require.NoError(t, <-ended)
		assert.Equal(t, "5 messages are left\n", out.String())
	})
}
